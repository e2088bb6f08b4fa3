-- Keeps a gateway alive, and removes the notes of one that has fallen silent.
--
-- ARGV[4]  the node of the gateway
-- ARGV[5]  the time after which it is given up, in milliseconds; 0 gives it up now
-- Returns the epoch, the sequence, 1 if the node was not known, 1 if there is more to remove, and the numbers of topics, of
-- publications held and of their bytes.
local NOTES_PER_CALL = 256
local has_more = 0

local is_new = redis.call('ZADD', nodes, text(now + tonumber(ARGV[5])), ARGV[4])
local silent = redis.call('ZRANGEBYSCORE', nodes, '-inf', text(now), 'LIMIT', 0, 1)
if silent[1] then
    local notes = redis.call('SRANDMEMBER', base .. 'n:' .. silent[1], NOTES_PER_CALL)
    for _, note in ipairs(notes) do
        local at = string.find(note, '\n', 1, true)
        leave(string.sub(note, 1, at - 1), string.sub(note, at + 1), silent[1])
        redis.call('SREM', base .. 'n:' .. silent[1], note)
    end
    if #notes < NOTES_PER_CALL then
        redis.call('ZREM', nodes, silent[1])
    else
        has_more = 1
    end
end
return {epoch, sequence, is_new, has_more, redis.call('ZCARD', base .. 'newest'), total_held, total_bytes}
