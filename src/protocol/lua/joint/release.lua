-- Lowers the counts of many plain holds; frees those at 0 and tells who waits for them.
-- KEYS: the locks. ARGV: for each lock the holder, the count to leave and the channel.
-- Reply: for each lock as the release of one answers, or the text of its error.
-- Each key by itself: one that is lost must not leave the others locked.
local function release(key, holder, left, channel)
    if redis.call('hexists', key, holder) == 0 then
        return -1
    end
    if left ~= '0' then
        redis.call('hset', key, holder, left)
        return 0
    end
    redis.call('del', key)
    local told = redis.pcall('publish', channel, '0')
    return type(told) == 'table' and -2 or told
end

local result = {}
local function each(last)
    for i, key in ipairs(KEYS) do
        if (ARGV[3 * i - 1] == '0') == last then
            local done, said = pcall(release, key, ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i])
            if not done and type(said) == 'table' then
                -- Text before Redis 7.
                said = said.err
            end
            result[i] = said
        end
    end
end
-- What frees memory comes first: it passes when the server has none left, and lets the rest pass.
each(true)
each(false)
return result
