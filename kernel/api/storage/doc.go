// Package storage puts k8s.io/apiserver's storage.Interface on the kernel's store and bus.
//
// # What it owns
//
// The layout of keys (/registry/<resource>/..., as kube-apiserver lays them out), encoding and decoding, the decoded
// objects shared by reads and watches, selection, paging, watches, and the words of the errors.
//
// # What it promises
//
// What the comments of storage.Interface demand, with the semantics of upstream's etcd3 storage for reads and writes
// (every read is a read of the latest state or of the exact revision asked for; there is no stale cache) and of
// upstream's cacher for watches (bookmarks, initial events). An object is decoded once a revision: by the request that
// wrote it, or by the first that reads it.
//
// # How data passes through
//
// Create and GuaranteedUpdate encode once, decode the result once and hand both to the store: the bytes as the value,
// the object as the event's attachment. Watches and lists serve that object. Decoded objects are immutable; what goes
// out is a shallow copy (lists, watch events), so that an encoder may set its type, or a deep one (everything a caller
// may change). A caller that promises to change nothing gets the object itself (WithSharedResult); one that gives an
// object away, as decoding would make it, has it kept without decoding (WithGivenObject, Replace).
//
// A binding changes nothing of a pod's spec but the node's name: it is put into the encoding of the spec, which pods of one
// controller share (podspec.go).
//
// A watch with a field selector on a trigger field (StoreOptions.TriggerFunc, such as spec.nodeName of pods) is a topic
// on the bus: an event touches only the watches of its old and new value, not each of a thousand nodes'.
//
// Where several watches are open, all of them get one object for an event, which keeps its encodings: protobuf or JSON
// of an event are made once, however many watches send them (shared.go). Watches of equal selectors have an event looked
// at once (selection.go). Neither is kept longer than watches are busy with the event.
//
// A list that is only sent (EncodedList) is put together from encodings of its items, which are kept from the first such
// list until none came for half a minute, within Options.EncodingBytes (encodings.go). They are made of the decoded
// object, though what is stored is protobuf too: decoding sets the defaults that an object of an older version lacks.
//
// A kernel that comes to rest calls Backend.Rest, which drops decoded objects: they are decoded again when asked for.
//
// Objects that cannot be decrypted or decoded are named by reads and lists, are left out of what the server itself follows
// (WithoutCorruptObjects), and can be deleted by who asks for just that
// (corrupt.go).
//
// # Caveats
//
// Who calls Watch and does not encode what it gets says so with WithPlainObjects, or takes runtime.CacheableObject for
// an object.
//
// Items of a list and objects of watch events share their insides with the cache: they may be read, encoded and have
// their top-level fields set, as with upstream's watch cache, and nothing below may be changed.
//
// The package may import kernel/store, kernel/bus and k8s.io/apiserver, and nothing above.
package storage
