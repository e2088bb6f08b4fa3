-- Begins every script: reads the state of the engine, and creates it if Redis has none.
--
-- KEYS[1]  the hash "{prefix}:meta". All other keys begin with the same "{prefix}:", so they are in the same slot.
-- ARGV[1]  the run of the server, as the connection knows it
-- ARGV[2]  a random epoch
-- ARGV[3]  PUBLISH, or SPUBLISH in a cluster
local base = string.sub(KEYS[1], 1, -5)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Sequences are below 2^53, which a number of Lua holds exactly; without the format, it would be written as 1e+15.
local function text(number)
    return string.format('%.0f', number)
end

-- The first sequence of an epoch or of a run: the time in microseconds, so that no number is given twice, whatever was lost.
-- A server does not publish a million times in a second, so its numbers stay behind the clock.
local function first_sequence()
    return time[1] * 1000000 + time[2]
end

local state = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'sequence', 'forgotten', 'bytes', 'held')
local epoch, run, sequence = state[1], state[2], tonumber(state[3] or 0)
local forgotten = tonumber(state[4] or 0)
local total_bytes = tonumber(state[5] or 0)
local total_held = tonumber(state[6] or 0)
if not epoch then
    epoch, run, sequence = ARGV[2], ARGV[1], first_sequence()
    redis.call('HSET', KEYS[1], 'epoch', epoch, 'run', run, 'sequence', text(sequence))
end

-- Sends a message to all gateways with a subscription that may match the topic.
local function announce(topic, message)
    local first = string.match(topic, '^[^.]+')
    redis.call(ARGV[3], base .. 'c:' .. topic, message)
    redis.call(ARGV[3], base .. 's:' .. first, message)
    redis.call(ARGV[3], base .. 'a', message)
end
