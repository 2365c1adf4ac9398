-- Raises the TTL of many plain holds, each only if its owner still has it.
-- KEYS: the locks. ARGV: for each lock its holder and the TTL in ms.
-- Reply: for each lock 1 renewed, 0 gone, or the text of its error.
-- Each key by itself: one that is no lock must not cost the others their renewal.
local result = {}
for i, key in ipairs(KEYS) do
    local holder, ttl = ARGV[2 * i - 1], ARGV[2 * i]
    local held = redis.pcall('hexists', key, holder)
    if type(held) == 'table' then
        result[i] = held.err
    elseif held == 0 then
        result[i] = 0
    elseif redis.call('pttl', key) >= tonumber(ttl) then
        result[i] = 1
    else
        local done = redis.pcall('pexpire', key, ttl)
        result[i] = type(done) == 'table' and done.err or done
    end
end
return result
