-- Raises the TTL of many read holds and of their slots, each only if its reader is still there.
-- KEYS: the locks. ARGV: for each lock its stem, the holder and the TTL in ms.
-- Reply: for each lock 1 renewed, 0 gone, or the text of its error.
-- Each key by itself: one that is no lock must not cost the others their renewal.
local function renew(key, stem, holder, ttl)
    local count = redis.call('hget', key, holder)
    if not count then
        return 0
    end
    -- All of them, also those that are gone: a release that runs later takes the topmost away.
    for number = math.max(topmost(stem, holder, count), 1), 1, -1 do
        local name = slot(stem, holder, number)
        -- PEXPIRE first: it passes when the server has no memory left, and lets the rest pass.
        raise(name, ttl)
        hold(name, ttl)
    end
    raise(key, ttl)
    return 1
end

local result = {}
for i, key in ipairs(KEYS) do
    local done, said = pcall(renew, key, ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i])
    if not done and type(said) == 'table' then
        -- Text before Redis 7.
        said = said.err
    end
    result[i] = said
end
return result
