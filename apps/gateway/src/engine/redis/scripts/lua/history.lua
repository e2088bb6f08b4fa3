-- Reads a part of the history of one topic, or of the topics that a filter matches, in the order of their names.
--
-- ARGV[4]   the filter
-- ARGV[5]   "" for a filter without wildcards, else 1
-- ARGV[6]   the text with which all topics begin that the filter matches
-- ARGV[7]   1 if missing publications are to be told
-- ARGV[8]   the sequence after which to read
-- ARGV[9]   the sequence up to which to read, or "" for the last one
-- ARGV[10]  the number of publications after which to stop
-- ARGV[11]  the number of bytes after which to stop
-- ARGV[12]  the limit of the age, in milliseconds
-- ARGV[13]  the topic where to go on, or ""
-- ARGV[14]  the sequence of that topic after which to go on
-- Returns the epoch, the last sequence, 1 if something is missing, the topic and the sequence where to go on ("" if all was
-- read), then topic, sequence and body of each publication.
local filter, has_wildcards, prefix = ARGV[4], ARGV[5] == '1', ARGV[6]
local asks_gap, since, through = ARGV[7] == '1', tonumber(ARGV[8]), tonumber(ARGV[9]) or sequence
local max_count, max_bytes = tonumber(ARGV[10]), tonumber(ARGV[11])
local cutoff = now - tonumber(ARGV[12])
local next_topic, next_sequence = ARGV[13], tonumber(ARGV[14])

-- Names that one call looks at: some hundred microseconds.
local NAMES_PER_CALL = 256

local has_gap, count, bytes, found = 0, 0, 0, {}

local function note_missing(through_sequence, from)
    if asks_gap and through_sequence > from then
        has_gap = 1
    end
end

-- Reads a topic. Returns true when it is read to its end, else the sequence after which to go on.
local function read(topic, from)
    local stream = base .. 'h:' .. topic
    local info = redis.call('HMGET', base .. 'i:' .. topic, 'missing', 'bytes')
    note_missing(tonumber(info[1] or forgotten), from)
    local held = redis.call('XLEN', stream)
    while held > 0 do
        if count >= max_count or bytes >= max_bytes then
            return from
        end
        -- As many as fit into the rest of the bytes if all of them have the average size.
        local step = math.floor((max_bytes - bytes) * held / math.max(tonumber(info[2] or 0), 1)) + 1
        step = math.min(step, max_count - count, 256)
        local entries = redis.call('XRANGE', stream, '(' .. text(from) .. '-0', text(through), 'COUNT', text(step))
        for _, entry in ipairs(entries) do
            local id = string.match(entry[1], '^%d+')
            local before = from
            from = tonumber(id)
            if tonumber(entry[2][2]) < cutoff then
                note_missing(from, before)
            else
                found[#found + 1] = topic
                found[#found + 1] = from
                found[#found + 1] = entry[2][4]
                count = count + 1
                bytes = bytes + #entry[2][4]
            end
        end
        if #entries < step then
            break
        end
    end
    return true
end

local function answer()
    local head = {epoch, sequence, has_gap, next_topic, text(next_sequence)}
    for i = 1, #found do
        head[5 + i] = found[i]
    end
    return head
end

if not has_wildcards then
    local at = read(filter, math.max(since, next_sequence))
    next_topic, next_sequence = '', 0
    if at ~= true then
        next_topic, next_sequence = filter, at
    end
    return answer()
end

local segments = {}
for segment in string.gmatch(filter, '[^.]+') do
    segments[#segments + 1] = segment
end

local function matches(topic)
    local i = 0
    for segment in string.gmatch(topic, '[^.]+') do
        i = i + 1
        if segments[i] == '>' then
            return true
        elseif segments[i] ~= '*' and segments[i] ~= segment then
            return false
        end
    end
    return i == #segments
end

note_missing(forgotten, since)
local begin = '[' .. (next_topic == '' and prefix or next_topic)
local names = redis.call('ZRANGEBYLEX', base .. 'names', begin, '+', 'LIMIT', 0, NAMES_PER_CALL + 1)
local resumed, resumed_at = next_topic, next_sequence
next_topic, next_sequence = '', 0
for i, topic in ipairs(names) do
    if string.sub(topic, 1, #prefix) ~= prefix then
        break
    end
    local from = topic == resumed and math.max(since, resumed_at) or since
    if i > NAMES_PER_CALL or count >= max_count or bytes >= max_bytes then
        next_topic, next_sequence = topic, from
        break
    end
    if matches(topic) and tonumber(redis.call('ZSCORE', base .. 'newest', topic) or 0) > since then
        local at = read(topic, from)
        if at ~= true then
            next_topic, next_sequence = topic, at
            break
        end
    end
end
return answer()
