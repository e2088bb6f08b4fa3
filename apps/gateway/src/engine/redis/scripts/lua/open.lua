-- Opens the state for a connection. The first one after a start or failover of the server begins a run: no sequence that
-- may have been given before is given again; if publications may be lost, a new epoch begins.
--
-- ARGV[4]  1 if this server may have lost publications when it started
-- ARGV[5]  the epoch that the gateway knows, or ""
-- ARGV[6]  the greatest sequence of that epoch that the gateway knows
-- Returns the epoch and the sequence.
local known_epoch, known_sequence = ARGV[5], tonumber(ARGV[6])
if run ~= ARGV[1] then
    local last = sequence
    sequence = math.max(sequence + 1, first_sequence())
    redis.call('HSET', KEYS[1], 'run', ARGV[1], 'sequence', text(sequence), 'before', text(last), 'start', text(sequence))
    if ARGV[4] == '1' or (known_epoch == epoch and known_sequence > last) then
        epoch = ARGV[2]
        redis.call('HSET', KEYS[1], 'epoch', epoch)
    end
elseif known_epoch == epoch then
    -- Another gateway has begun this run, and did not know that publications are lost.
    local run_begin = redis.call('HMGET', KEYS[1], 'before', 'start')
    if run_begin[1] and known_sequence > tonumber(run_begin[1]) and known_sequence < tonumber(run_begin[2]) then
        epoch = ARGV[2]
        redis.call('HSET', KEYS[1], 'epoch', epoch)
    end
end
return {epoch, sequence}
