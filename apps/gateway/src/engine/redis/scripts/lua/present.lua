-- Changes or reads the presence.
--
-- ARGV[4]  enter: ARGV[5] is the node; then topic, client and "=" with the user or "", of each note
--          leave: topic and client
--          list: topic, number of clients
-- Returns, for list, the number of all clients, then id and "=" with the user or "", of the first ones.
local operation = ARGV[4]
if operation == 'enter' then
    for i = 6, #ARGV, 3 do
        enter(ARGV[5], ARGV[i], ARGV[i + 1], ARGV[i + 2])
    end
elseif operation == 'leave' then
    leave(ARGV[5], ARGV[6])
else
    local topic, count = ARGV[5], tonumber(ARGV[6])
    local answer = {redis.call('ZCARD', base .. 'p:' .. topic)}
    if count > 0 then
        for _, client in ipairs(redis.call('ZRANGE', base .. 'p:' .. topic, 0, count - 1)) do
            local _, user = node_and_user(redis.call('HGET', base .. 'u:' .. topic, client))
            answer[#answer + 1] = client
            answer[#answer + 1] = user
        end
    end
    return answer
end
return 0
