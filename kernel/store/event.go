package store

// EventType says what a revision did to its key.
type EventType uint8

const (
	// Created: the key had no value before.
	Created EventType = iota
	// Updated: the key had a value before.
	Updated
	// Deleted: the key has no value any more, by a delete or because its time to live ended.
	Deleted
	// Void marks a revision whose write was undone because it never became durable. It is never an Event.
	Void
)

func (t EventType) String() string {
	switch t {
	case Created:
		return "created"
	case Updated:
		return "updated"
	case Deleted:
		return "deleted"
	}
	return "void"
}

// Event is one committed revision. It is shared by all who receive it: nobody may change it or its value.
type Event struct {
	Revision uint64
	Type     EventType
	Key      string
	// Value is the key's value after the event, nil for Deleted.
	Value []byte
	// PreviousRevision is the revision of the key's former value, 0 for Created. The value itself is read with
	// Store.Before, which works as long as Revision is above the compacted one.
	PreviousRevision uint64
	// Attachment is the Write's; nil in an event that was replayed from disk.
	Attachment any
	// Topics is the Write's; nil (unknown) in an event that was replayed from disk and in a delete by expiry.
	Topics []string
}
