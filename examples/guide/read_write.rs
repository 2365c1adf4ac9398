//! A block of docs/guide.md.

use lockson::{Client, Result};

pub fn prices(client: &Client) -> Result<()> {
    let prices = client.read_write_lock("guide:prices");
    {
        let _reading = prices.read()?; // beside all others who read
    }
    let writing = prices.write()?; // alone
    let reading = writing.downgrade().map_err(|(error, _writing)| error)?;
    // Others read too now, and nobody has written in between.
    reading.unlock()
}
