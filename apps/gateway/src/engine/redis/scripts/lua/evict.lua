-- What an entry of a stream takes besides the body: its id and its fields, rounded up.
local OVERHEAD = 96

-- Publications that one call evicts because of their age. The others are hidden from readers, and evicted by later calls.
local EXPIRED_PER_CALL = 64

-- Evicts the oldest publications of a topic while it exceeds a limit. `info` has the fields missing, bytes and oldest of
-- its hash, which the caller writes back.
local function evict(topic, info, max_held, max_bytes, cutoff)
    local stream = base .. 'h:' .. topic
    local held = redis.call('XLEN', stream)
    local expired = 0
    while held > 0 do
        local is_old = info.oldest < cutoff and expired < EXPIRED_PER_CALL
        if held <= max_held and info.bytes <= max_bytes and not is_old then
            break
        end
        local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 2)
        info.missing = tonumber(string.match(first[1][1], '^%d+'))
        local size = #first[1][2][4] + OVERHEAD
        info.bytes = info.bytes - size
        total_bytes = total_bytes - size
        total_held = total_held - 1
        held = held - 1
        expired = expired + 1
        redis.call('XTRIM', stream, 'MAXLEN', held)
        info.oldest = first[2] and tonumber(first[2][2][2]) or 0
    end
end

-- Reads the hash of a topic.
local function read_info(topic)
    local fields = redis.call('HMGET', base .. 'i:' .. topic, 'missing', 'bytes', 'oldest', 'published', 'window', 'current',
        'previous', 'last')
    local function number(i)
        return tonumber(fields[i] or 0)
    end
    return {missing = number(1), bytes = number(2), oldest = number(3), published = number(4), window = number(5),
        current = number(6), previous = number(7), last = number(8)}
end

-- Writes the hash of a topic.
local function write_info(topic, info)
    redis.call('HSET', base .. 'i:' .. topic, 'missing', text(info.missing), 'bytes', text(info.bytes), 'oldest',
        text(info.oldest), 'published', text(info.published), 'window', text(info.window), 'current', text(info.current),
        'previous', text(info.previous), 'last', text(info.last))
end

-- Turns the counts of a topic to the present window of ten seconds.
local WINDOW = 10000
local function turn_window(info)
    local window = math.floor(now / WINDOW)
    if window ~= info.window then
        info.previous = window == info.window + 1 and info.current or 0
        info.current = 0
        info.window = window
    end
end

-- Writes the totals.
local function write_totals()
    redis.call('HSET', KEYS[1], 'forgotten', text(forgotten), 'bytes', text(total_bytes), 'held', text(total_held))
end
