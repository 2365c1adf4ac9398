-- Takes a write lock, or re-enters it.
-- KEYS: the lock. ARGV: lease in ms, the writer's field, count to reach.
-- Reply: {ttl} when held, with what it lives now in ms; the PTTL when others hold it; 'lost' when the
-- hold to re-enter is gone.
-- Runs twice with one effect: the count is absolute, and says whether the lease was added already.
local key, lease, writer, count = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3]
local before = redis.call('hget', key, writer)
if not before then
    if count ~= '1' then
        return 'lost'
    end
    if redis.call('exists', key) == 1 then
        return redis.call('pttl', key)
    end
    redis.call('hset', key, 'mode', 'write', writer, 1)
    local set = redis.pcall('pexpire', key, ARGV[1])
    if type(set) == 'table' then
        -- Better no lock than one without an end.
        redis.call('del', key)
        return set
    end
    return { lease }
end
local ttl = redis.call('pttl', key)
local wanted = lease
if before ~= count then
    redis.call('hset', key, writer, count)
    -- Redisson adds the lease of a re-entry to what is left.
    wanted = math.max(ttl, 0) + lease
end
if ttl < wanted then
    redis.call('pexpire', key, string.format('%.0f', wanted))
    ttl = wanted
end
return { ttl }
