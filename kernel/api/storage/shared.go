package storage

import (
	"bytes"
	"context"
	"io"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"pintle.dev/pintle/kernel/store"
)

// sharedFrom is the number of a storage's watches that somebody encodes from which events carry shared objects. For
// fewer, keeping an encoding costs more than it saves.
const sharedFrom = 3

// sharedObject is the object of an event that many watches send: each encoding of it is made by the first encoder that
// asks for it. It implements runtime.CacheableObject, which k8s.io/apiserver's encoders know.
type sharedObject struct {
	obj runtime.Object
	// data is how the store has it, revision what that lacks, and envelope what it is in; data is nil where it is not known.
	data     []byte
	revision uint64
	envelope *envelope

	mu        sync.Mutex
	encodings []*encoding
}

// encoding is the object as one encoder writes it.
type encoding struct {
	id   runtime.Identifier
	once sync.Once
	raw  []byte
	err  error
}

var (
	_ runtime.CacheableObject   = (*sharedObject)(nil)
	_ metav1.ObjectMetaAccessor = (*sharedObject)(nil)
)

// CacheEncode implements runtime.CacheableObject.
func (o *sharedObject) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	e := o.encoding(id)
	e.once.Do(func() {
		var b bytes.Buffer
		if len(o.data) > 0 && o.envelope.asksFor(id) {
			b.Grow(len(o.data) + roomAround)
			e.err = encode(storedObject{o}, &b)
		} else {
			e.err = encode(o.GetObject(), &b)
		}
		e.raw = b.Bytes()
	})
	if e.err != nil {
		return e.err
	}
	if splice, ok := w.(runtime.Splice); ok {
		splice.Splice(e.raw)
		return nil
	}
	_, err := w.Write(e.raw)
	return err
}

// roomAround is for what a watch event has beside an object's encoding without resource version: length, type, and that.
const roomAround = 64

// storedObject is a sharedObject that keeps no encoding: within a watch event, which is kept as a whole, or for the few
// watches that share nothing. The codec that wrote it would encode it as it is stored, but for the resource version.
type storedObject struct{ *sharedObject }

// CacheEncode implements runtime.CacheableObject, for encoders of the object and of the event around it.
func (o storedObject) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	switch {
	case id == o.envelope.id:
		data, ok := o.envelope.versioned(o.data, o.revision)
		if !ok {
			break
		}
		if splice, ok := w.(runtime.Splice); ok {
			splice.Splice(data)
			return nil
		}
		_, err := w.Write(data)
		return err
	case o.envelope.asksFor(id):
		return encode(o, w)
	}
	return encode(o.GetObject(), w)
}

// encoding finds or adds one. There are few: a format, or a table, each in up to three types of events.
func (o *sharedObject) encoding(id runtime.Identifier) *encoding {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.encodings {
		if e.id == id {
			return e
		}
	}
	e := &encoding{id: id}
	o.encodings = append(o.encodings, e)
	return e
}

// GetObject implements runtime.CacheableObject. What it returns shares its insides, as any object of an event does.
func (o *sharedObject) GetObject() runtime.Object { return shallowCopy(o.obj) }

// GetObjectKind implements runtime.Object.
func (o *sharedObject) GetObjectKind() schema.ObjectKind { return o.obj.GetObjectKind() }

// DeepCopyObject implements runtime.Object.
func (o *sharedObject) DeepCopyObject() runtime.Object {
	return &sharedObject{obj: o.obj.DeepCopyObject()}
}

// GetObjectMeta implements metav1.ObjectMetaAccessor.
func (o *sharedObject) GetObjectMeta() metav1.Object {
	m, _ := meta.Accessor(o.obj)
	return m
}

// sharing leads the watches of one event to its shared object. It does not keep it: when the last of them has sent it
// the encodings are garbage, however long the event itself is kept for watches to come.
type sharing struct {
	mu     sync.Mutex
	shared weak.Pointer[sharedObject]
}

// get gives the shared object that is made when there is none yet.
func (s *sharing) get(of func() (*sharedObject, error)) (*sharedObject, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.shared.Value(); o != nil {
		return o, nil
	}
	o, err := of()
	if err != nil {
		return nil, err
	}
	s.shared = weak.Make(o)
	return o, nil
}

// sharings lead to what watches share of the object after an event, and of the one before it for those whose selector it
// leaves.
type sharings struct{ shared, leaving sharing }

// replayed has the sharings of the latest events that were read from the history, by revision.
type replayed struct {
	mu     sync.Mutex
	events []replayedEvent
}

type replayedEvent struct {
	revision uint64
	*sharings
}

// sharings are those of the request that wrote the event, or of the event as it is replayed: many watches do that at the
// same time when they connect again.
func (s *Storage) sharings(e *store.Event) *sharings {
	if a := s.attached(e); a != nil {
		return &a.sharings
	}
	s.replayed.mu.Lock()
	defer s.replayed.mu.Unlock()
	if s.replayed.events == nil {
		s.replayed.events = make([]replayedEvent, remembered)
	}
	at := &s.replayed.events[e.Revision%remembered]
	if at.revision != e.Revision {
		*at = replayedEvent{e.Revision, &sharings{}}
	}
	return at.sharings
}

type plainKey struct{}

// WithPlainObjects makes the events of watches that are started with the context carry objects of the resource's own
// type, never what encoders share (runtime.CacheableObject). They are the objects that the storage holds, and nobody may
// change them. It is for watches that nobody encodes.
func WithPlainObjects(ctx context.Context) context.Context {
	return context.WithValue(ctx, plainKey{}, true)
}

func plainObjects(ctx context.Context) bool {
	plain, _ := ctx.Value(plainKey{}).(bool)
	return plain
}
