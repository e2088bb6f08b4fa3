-- Tells what is known of topics, in the order of their names.
--
-- ARGV[4]  the topic after which to begin, or ""
-- ARGV[5]  the number of topics
-- ARGV[6]  the limit of the age, in milliseconds
-- Returns the last name, or "" if there are no more, then name, publications so far, publications held, and publications
-- per second as a text, of each topic.
local cutoff = now - tonumber(ARGV[6])
local count = tonumber(ARGV[5])
local begin = ARGV[4] == '' and '-' or '(' .. ARGV[4]
local names = redis.call('ZRANGEBYLEX', base .. 'names', begin, '+', 'LIMIT', 0, count + 1)
local answer = {names[count + 1] and names[count] or ''}
for i = 1, math.min(#names, count) do
    local info = read_info(names[i])
    turn_window(info)
    evict(names[i], info, math.huge, math.huge, cutoff)
    write_info(names[i], info)
    local into = (now % WINDOW) / WINDOW
    local rate = (info.current + info.previous * (1 - into)) / (WINDOW / 1000)
    answer[#answer + 1] = names[i]
    answer[#answer + 1] = info.published
    answer[#answer + 1] = redis.call('XLEN', base .. 'h:' .. names[i])
    answer[#answer + 1] = string.format('%.3f', rate)
end
write_totals()
return answer
