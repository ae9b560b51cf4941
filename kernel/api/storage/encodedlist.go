package storage

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// EncodedList is a list for GetList to fill whose items are encoded already, for a caller that does nothing but send
// them. It stands for the list type of its kind wherever that is encoded: by the encoder that it was made for it is
// written as that encoder writes the list type, byte for byte; any other encoder gets the list type itself.
type EncodedList struct {
	metav1.TypeMeta
	metav1.ListMeta

	form    form
	encoder runtime.Identifier
	newList func() runtime.Object
	items   [][]byte
}

var (
	_ runtime.CacheableObject = (*EncodedList)(nil)
	_ metav1.ListInterface    = (*EncodedList)(nil)
)

// NewEncodedList makes an empty list of the kind gvk (a list's, such as PodList) for an encoder that writes this
// version, as runtime.ContentTypeProtobuf, which the items must have, or else as runtime.ContentTypeJSON. newList gives
// the list type.
func NewEncodedList(gvk schema.GroupVersionKind, mediaType string, encoder runtime.Identifier, newList func() runtime.Object) *EncodedList {
	l := &EncodedList{encoder: encoder, newList: newList}
	if mediaType == runtime.ContentTypeProtobuf {
		l.form = formProtobuf
	}
	l.SetGroupVersionKind(gvk)
	return l
}

// CacheEncode implements runtime.CacheableObject.
func (l *EncodedList) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	switch {
	case id != l.encoder:
		list, err := l.list()
		if err != nil {
			return err
		}
		return encode(list, w)
	case l.form == formProtobuf:
		return l.writeProtobuf(w)
	}
	return l.writeJSON(w)
}

// GetObject implements runtime.CacheableObject.
func (l *EncodedList) GetObject() runtime.Object {
	list, err := l.list()
	if err != nil {
		return l.DeepCopyObject() // which says the same
	}
	return list
}

// DeepCopyObject implements runtime.Object. Encoded items are never changed, and shared.
func (l *EncodedList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.items = slices.Clone(l.items)
	return &out
}

// list decodes all items into the list type.
func (l *EncodedList) list() (runtime.Object, error) {
	list := l.newList()
	ptr, err := meta.GetItemsPtr(list)
	if err != nil {
		return nil, err
	}
	items, err := conversion.EnforcePtr(ptr)
	if err != nil {
		return nil, err
	}
	items.Set(reflect.MakeSlice(items.Type(), len(l.items), len(l.items)))
	for i, raw := range l.items {
		if err := l.form.decode(raw, items.Index(i).Addr().Interface()); err != nil {
			return nil, fmt.Errorf("item %d of %s: %w", i, l.Kind, err)
		}
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	m.SetResourceVersion(l.ResourceVersion)
	m.SetContinue(l.Continue)
	m.SetRemainingItemCount(l.RemainingItemCount)
	if sharded, ok := m.(metav1.ShardedListInterface); ok {
		sharded.SetShardInfo(l.ShardInfo)
	}
	return list, nil
}

// writeBytes is the size of the pieces that a list is written in. The first decides whether k8s.io/apiserver compresses
// (more than 128 KiB); and what is handed to HTTP/2 in small pieces costs a change of goroutines each.
const writeBytes = 256 << 10

// pieces collects small writes into large ones.
type pieces struct {
	w   io.Writer
	buf []byte
}

func newPieces(w io.Writer, total int) *pieces {
	return &pieces{w: w, buf: make([]byte, 0, min(total, writeBytes))}
}

func (p *pieces) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if len(p.buf) == cap(p.buf) {
			if err := p.flush(); err != nil {
				return n - len(b), err
			}
		}
		room := min(len(b), cap(p.buf)-len(p.buf))
		p.buf, b = append(p.buf, b[:room]...), b[room:]
	}
	return n, nil
}

func (p *pieces) flush() error {
	_, err := p.w.Write(p.buf)
	p.buf = p.buf[:0]
	return err
}

// size is that of all items, with each bytes more for each.
func (l *EncodedList) size(each int) int {
	n := len(l.items) * each
	for _, raw := range l.items {
		n += len(raw)
	}
	return n
}

func (l *EncodedList) writeJSON(w io.Writer) error {
	head := []byte{'{'}
	field := func(name string, value any) error {
		raw, err := json.Marshal(value)
		if err != nil {
			return err
		}
		head = append(append(append(head, '"'), name...), '"', ':')
		head = append(append(head, raw...), ',')
		return nil
	}
	if err := field("kind", l.Kind); err != nil {
		return err
	}
	if err := field("apiVersion", l.APIVersion); err != nil {
		return err
	}
	if err := field("metadata", l.ListMeta); err != nil {
		return err
	}
	head = append(head, `"items":[`...)
	end := "]}\n"
	out := newPieces(w, len(head)+l.size(1)+len(end))
	if _, err := out.Write(head); err != nil {
		return err
	}
	comma := []byte{','}
	for i, raw := range l.items {
		if i > 0 {
			if _, err := out.Write(comma); err != nil {
				return err
			}
		}
		if _, err := out.Write(raw); err != nil {
			return err
		}
	}
	if _, err := out.Write([]byte(end)); err != nil {
		return err
	}
	return out.flush()
}

// protobufMagic begins what Kubernetes encodes as protobuf: a runtime.Unknown, with the object inside.
var protobufMagic = []byte{'k', '8', 's', 0}

// Tags of the fields of a list: both are length-delimited, of the numbers 1 and 2.
const (
	listMetaTag = 1<<3 | 2
	itemsTag    = 2<<3 | 2
)

func (l *EncodedList) writeProtobuf(w io.Writer) error {
	listMeta, err := l.ListMeta.Marshal()
	if err != nil {
		return err
	}
	size := 1 + varintLen(len(listMeta)) + len(listMeta)
	for _, raw := range l.items {
		size += 1 + varintLen(len(raw)) + len(raw)
	}
	const wrapper = 128 // bytes, or more when names are longer, which only makes a piece more
	out := newPieces(w, size+wrapper)
	if _, err := out.Write(protobufMagic); err != nil {
		return err
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: l.APIVersion, Kind: l.Kind}}
	if _, err := unknown.MarshalToWriter(out, size, func(w io.Writer) (int, error) {
		var header [1 + binary.MaxVarintLen64]byte
		field := func(tag byte, raw []byte) error {
			header[0] = tag
			if _, err := w.Write(header[:1+binary.PutUvarint(header[1:], uint64(len(raw)))]); err != nil {
				return err
			}
			_, err := w.Write(raw)
			return err
		}
		if err := field(listMetaTag, listMeta); err != nil {
			return 0, err
		}
		for _, raw := range l.items {
			if err := field(itemsTag, raw); err != nil {
				return 0, err
			}
		}
		return size, nil
	}); err != nil {
		return err
	}
	return out.flush()
}

// varintLen is how many bytes n takes as a varint.
func varintLen(n int) int { return (bits.Len64(uint64(n)|1) + 6) / 7 }
