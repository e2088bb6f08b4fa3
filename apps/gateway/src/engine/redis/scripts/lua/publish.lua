-- Publishes a batch: gives each publication a sequence, keeps it in the stream of its topic, and sends it to the gateways.
--
-- ARGV[4], ARGV[5]  limits of a topic: publications, bytes
-- ARGV[6]           limit of the age, in milliseconds
-- ARGV[7], ARGV[8]  limits of all topics: bytes, topics
-- ARGV[9]...        topic and body of each publication
-- Returns the epoch and the sequence of the first publication; the others follow it.
local max_held, max_bytes, max_age = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local max_total, max_topics = tonumber(ARGV[7]), tonumber(ARGV[8])
local newest, names = base .. 'newest', base .. 'names'
local cutoff = now - max_age

-- The sequences are taken before anything is written: if the script fails halfway, none of them is given again.
local first = sequence + 1
redis.call('HSET', KEYS[1], 'sequence', text(sequence + (#ARGV - 8) / 2))

-- Removes a topic with its history. Of all topics that were removed, the greatest sequence is kept.
local function forget(topic, last)
    local info = base .. 'i:' .. topic
    total_bytes = total_bytes - tonumber(redis.call('HGET', info, 'bytes') or 0)
    total_held = total_held - redis.call('XLEN', base .. 'h:' .. topic)
    forgotten = math.max(forgotten, last)
    redis.call('DEL', info, base .. 'h:' .. topic)
    redis.call('ZREM', newest, topic)
    redis.call('ZREM', names, topic)
end

for i = 9, #ARGV, 2 do
    local topic, body = ARGV[i], ARGV[i + 1]
    sequence = sequence + 1
    local is_new = redis.call('ZADD', newest, text(sequence), topic) == 1
    local info = read_info(topic)
    if is_new then
        redis.call('ZADD', names, 0, topic)
        info.missing = forgotten
    end
    local size = #body + OVERHEAD
    redis.call('XADD', base .. 'h:' .. topic, text(sequence) .. '-0', 't', text(now), 'b', body)
    if info.bytes == 0 then
        info.oldest = now
    end
    info.bytes = info.bytes + size
    total_bytes = total_bytes + size
    total_held = total_held + 1
    info.published = info.published + 1
    info.last = now
    turn_window(info)
    info.current = info.current + 1
    evict(topic, info, max_held, max_bytes, cutoff)
    write_info(topic, info)
    announce(topic, 'm' .. epoch .. '-' .. text(sequence) .. ' ' .. topic .. '\n' .. body)
end

-- Topics that one call forgets: the limits of all topics are exceeded for a few calls at most.
local FORGOTTEN_PER_CALL = 256

-- The topics that were published to the longest ago go first. The last one stays: its limits are below those of all.
for _ = 1, FORGOTTEN_PER_CALL do
    local topics = redis.call('ZCARD', newest)
    local oldest = redis.call('ZRANGE', newest, 0, 0, 'WITHSCORES')
    local is_old = tonumber(redis.call('HGET', base .. 'i:' .. oldest[1], 'last') or 0) < cutoff
    if topics == 1 or total_bytes <= max_total and topics <= max_topics and not is_old then
        break
    end
    forget(oldest[1], tonumber(oldest[2]))
end
write_totals()
return {epoch, first}
