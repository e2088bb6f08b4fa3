-- Refuses to work for a connection that has opened the state of another run of the server.
if run ~= ARGV[1] then
    return redis.error_reply('WRONGRUN the data belong to another run of the server')
end
