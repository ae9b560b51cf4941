// Package patchbounds refuses patches in JSON that cannot be merged in a bounded time.
//
// # What it owns
//
// A scan of a patch's text, before it is decoded. The library of JSON patches and merge
// patches reads the text of a value again at each level that it goes down, so that the
// time is that of length times depth. This holds for the patch and for the stored object:
// a small patch that goes deep into a large object takes long. The bound of levels is
// for the latter, and also counts the pointers of a JSON patch. Strategic merge patches
// look for each item of a list in all others.
//
// # What it promises
//
// A patch that is within the bounds reaches the handler untouched, whatever else is
// wrong with it. One beyond them is answered with 413 and the bound.
//
// Check is the same for patches that come another way: of admission plugins and webhooks.
// It also bounds the operations of a JSON patch, in the words of the handler.
//
// Data passes: a request's body → Patches → the handler.
//
// It must not import kernel/api, the store or a plugin. Applies and patches of status in
// CBOR or YAML have bounds in their decoders.
package patchbounds
