-- What all scripts of the fair lock begin with. KEYS: the lock, the queue, the times.
-- The queue is a list of waiters, the first next; the times are a sorted set of waiter and the
-- moment, in ms by the server's clock, from which others may pass it.
local key, queue, times = KEYS[1], KEYS[2], KEYS[3]

local function now()
    local time = redis.call('time')
    return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function whole(number)
    return string.format('%.0f', number)
end

-- The client of a waiter, and which of its waiters it is.
local function parts(who)
    local client, number = string.match(who, '^(.*):(%d+)$')
    return client, tonumber(number)
end

-- From when `who` may be passed; nil for one that has no such time. One without an end is none: who
-- came behind it would get no end either.
local function time_of(who)
    local time = tonumber(redis.call('zscore', times, who))
    return time and time < math.huge and time or nil
end

-- Drops those at the head who may be passed, but never `who`; answers who is first then.
-- One without a time would stand there for ever.
local function first(who, moment)
    while true do
        local head = redis.call('lindex', queue, 0)
        if not head or head == who then
            return head
        end
        local time = time_of(head)
        if time and time > moment then
            return head
        end
        redis.call('zrem', times, head)
        redis.call('lpop', queue)
    end
end

-- Takes `who` out of the queue; those behind it need not wait for its patience any more. Redisson
-- does the same, so that times stay comparable. What frees memory comes first.
local function leave(who, patience)
    local place = redis.call('lpos', queue, who)
    redis.call('zrem', times, who)
    if not place then
        return
    end
    redis.call('lrem', queue, 0, who)
    for _, behind in ipairs(redis.call('lrange', queue, place, -1)) do
        if redis.call('zscore', times, behind) then
            redis.call('zincrby', times, '-' .. patience, behind)
        end
    end
end

-- The end of a lease tells nobody, and who came to the head of the queue meanwhile may have read a longer
-- TTL. A longer one than this is looked at anyway.
local SHORT = 3000

-- Has the first look at a TTL that is short.
local function point_out(channel, ttl)
    local head = ttl < SHORT and first(nil, now())
    if head then
        redis.pcall('publish', channel .. ':' .. head, '0')
    end
end

-- Who is first when the lock was freed; nil also where something else stands at the names of the
-- queue: that is no reason not to tell the others.
local function successor()
    local fine, head = pcall(first, nil, now())
    return fine and head or nil
end

-- Tells the first in the queue, and who waits on the plain lock of this name.
-- Answers how many heard it; -2 when a message was refused.
local function announce(channel, head)
    local told = redis.pcall('publish', channel, '0')
    if head then
        local heard = redis.pcall('publish', channel .. ':' .. head, '0')
        if type(heard) == 'table' then
            return -2
        end
        told = type(told) == 'table' and told or told + heard
    end
    return type(told) == 'table' and -2 or told
end
