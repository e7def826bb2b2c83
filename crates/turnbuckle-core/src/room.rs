//! Lists and texts that are kept for long while they grow slowly. What grows by doubling has on average a third of its room to
//! spare; these grow by a quarter.

/// Makes room for more items.
pub fn reserve<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        list.reserve_exact(more.max(list.len() / 4).max(2));
    }
}

/// Adds an item.
pub fn push<T>(list: &mut Vec<T>, item: T) {
    reserve(list, 1);
    list.push(item);
}

/// Adds a text.
#[inline]
pub fn append(text: &mut String, more: &str) {
    if text.capacity() - text.len() < more.len() {
        text.reserve_exact(more.len().max(text.len() / 4));
    }
    text.push_str(more);
}
