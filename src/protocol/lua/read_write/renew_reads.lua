-- Raises the TTL of many read holds and of their slots, each only if its reader is still there.
-- KEYS: the locks. ARGV: for each lock its stem, the holder, the TTL in ms, and 1 for all slots or 0 for
-- the topmost.
-- Reply: for each lock 1 renewed, 0 gone, or the text of its error.
-- Each key by itself: one that is no lock must not cost the others their renewal.
local function renew(key, stem, holder, ttl, each)
    local count = redis.call('hget', key, holder)
    if not count then
        return 0
    end
    local top = math.max(topmost(stem, holder, count), 1)
    -- Also those that are gone: a release that runs later takes the topmost away.
    for number = top, each == '1' and 1 or top, -1 do
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
    local done, said = pcall(renew, key, ARGV[4 * i - 3], ARGV[4 * i - 2], ARGV[4 * i - 1], ARGV[4 * i])
    if not done and type(said) == 'table' then
        -- Text before Redis 7.
        said = said.err
    end
    result[i] = said
end
return result
