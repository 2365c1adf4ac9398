//! The pages of `docs/`, for reading and for testing their code. Not part of the API.

/// A page, whose links to the other pages lead to them here: of two definitions of a link the first counts.
macro_rules! page {
    ($name:ident, $($text:expr),+) => {
        #[doc = "[compatibility.md]: crate::_docs::compatibility"]
        #[doc = "[design.md]: crate::_docs::design"]
        #[doc = "[development.md]: crate::_docs::development"]
        #[doc = "[failures.md]: crate::_docs::failures"]
        #[doc = "[guide.md]: crate::_docs::guide"]
        #[doc = "[migrating-from-java.md]: crate::_docs::migrating_from_java"]
        #[doc = "[operations.md]: crate::_docs::operations"]
        #[doc = "[performance.md]: crate::_docs::performance"]
        #[doc = "[pictures.md]: crate::_docs::pictures"]
        #[doc = "[protocol.md]: crate::_docs::protocol"]
        #[doc = "[seven-schemes.md]: crate::_docs::seven_schemes"]
        #[doc = ""]
        $(#[doc = $text])+
        pub mod $name {}
    };
}

page!(compatibility, include_str!("../docs/compatibility.md"));
page!(design, include_str!("../docs/design.md"));
page!(development, include_str!("../docs/development.md"));
page!(failures, include_str!("../docs/failures.md"));
page!(guide, include_str!("../docs/guide.md"));
page!(
    migrating_from_java,
    include_str!("../docs/migrating-from-java.md")
);
page!(operations, include_str!("../docs/operations.md"));
page!(performance, include_str!("../docs/performance.md"));
// Images beside a page are not found from here: they stand in it.
page!(
    pictures,
    "# Pictures\n\n## A contended lock\n\n",
    include_str!("../docs/contended.svg"),
    "\n## The fair queue\n\n",
    include_str!("../docs/fair-queue.svg"),
    "\n## The layers\n\n",
    include_str!("../docs/layers.svg")
);
page!(protocol, include_str!("../docs/protocol.md"));
page!(seven_schemes, include_str!("../docs/seven-schemes.md"));
