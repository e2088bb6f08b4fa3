-- Notes clients that are present in topics, removes the notes of nodes that have fallen silent, and tells who is present.
--
-- "{prefix}:p:TOPIC"  the ids of the clients, sorted
-- "{prefix}:u:TOPIC"  a hash: the node and the user of each client
-- "{prefix}:n:NODE"   a set: topic and client of each note of a gateway
-- "{prefix}:nodes"    the time at which each gateway is given up
local nodes = base .. 'nodes'

local function announce_presence(topic, client, user, sign)
    local number = redis.call('HINCRBY', KEYS[1], 'presence', 1)
    announce(topic, 'p' .. epoch .. '-' .. text(number) .. ' ' .. topic .. '\n' .. sign .. #client .. ' ' .. client .. user)
end

-- A note in the hash is the node, a line end, and "=" with the user if there is one.
local function node_and_user(note)
    local at = string.find(note, '\n', 1, true)
    return string.sub(note, 1, at - 1), string.sub(note, at + 1)
end

local function enter(node, topic, client, user)
    local known = redis.call('HGET', base .. 'u:' .. topic, client)
    redis.call('HSET', base .. 'u:' .. topic, client, node .. '\n' .. user)
    redis.call('SADD', base .. 'n:' .. node, topic .. '\n' .. client)
    if not known then
        redis.call('ZADD', base .. 'p:' .. topic, 0, client)
        announce_presence(topic, client, user, '+')
        return
    end
    local before = node_and_user(known)
    if before ~= node then
        redis.call('SREM', base .. 'n:' .. before, topic .. '\n' .. client)
    end
end

local function leave(topic, client, of_node)
    local known = redis.call('HGET', base .. 'u:' .. topic, client)
    if not known then
        return
    end
    local node, user = node_and_user(known)
    if of_node and node ~= of_node then
        return
    end
    redis.call('HDEL', base .. 'u:' .. topic, client)
    redis.call('ZREM', base .. 'p:' .. topic, client)
    redis.call('SREM', base .. 'n:' .. node, topic .. '\n' .. client)
    announce_presence(topic, client, user, '-')
end
