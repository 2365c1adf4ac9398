-- Takes a plain lock, or re-enters it.
-- KEYS: the lock. ARGV: lease in ms, holder, count to reach.
-- Reply: nil when held; the PTTL when another holds it; 'lost' when the hold to re-enter is gone.
-- Runs twice with one effect: the count is absolute and the TTL is only raised.
local key, lease, holder, count = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
if redis.call('exists', key) == 0 then
    if count ~= '1' then
        return 'lost'
    end
    redis.call('hset', key, holder, count)
    local set = redis.pcall('pexpire', key, lease)
    if type(set) == 'table' then
        -- Better no lock than one without an end.
        redis.call('del', key)
        return set
    end
    return nil
end
if redis.call('hexists', key, holder) == 0 then
    if count ~= '1' then
        return 'lost'
    end
    return redis.call('pttl', key)
end
redis.call('hset', key, holder, count)
if redis.call('pttl', key) < tonumber(lease) then
    redis.call('pexpire', key, lease)
end
return nil
