package storage

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// envelope is what a protobuf codec puts around the objects of one type that it does not convert: with it they are
// encoded without asking the codec, and an encoding gets its resource version without decoding it.
//
//	"k8s", 0 | 0x0a TypeMeta | 0x12 object | 0x1a 0 | 0x22 0
type envelope struct {
	typ reflect.Type
	// head is all before the object.
	head []byte
	// asked is what the identifier of an encoder of watch events has in it whose objects are encoded as by the codec.
	asked string
	// id is the codec's own.
	id runtime.Identifier
}

// The fields of an envelope, and of an object: all kinds have their metadata first, and write a resource version that is
// empty too.
const (
	tagObject          = 0x12
	tagMetadata        = 0x0a
	tagResourceVersion = 0x32
)

// tail is behind each object: no content encoding, no content type.
var tail = []byte{0x1a, 0, 0x22, 0}

type sizedMarshaler interface {
	runtime.Object
	Size() int
	Marshal() ([]byte, error)
	MarshalToSizedBuffer([]byte) (int, error)
}

// envelopeOf finds the envelope out from what the codec makes of an empty object; nil: it is another format.
func envelopeOf(codec runtime.Codec, empty runtime.Object) *envelope {
	obj, ok := empty.(sizedMarshaler)
	if _, nested := empty.(runtime.NestedObjectEncoder); !ok || nested {
		return nil
	}
	raw, err := obj.Marshal()
	if err != nil {
		return nil
	}
	data, err := runtime.Encode(codec, obj)
	if err != nil {
		return nil
	}
	behind := append(binary.AppendUvarint([]byte{tagObject}, uint64(len(raw))), raw...)
	head, ok := bytes.CutSuffix(data, append(behind, tail...))
	if !ok {
		return nil
	}
	e := &envelope{typ: reflect.TypeOf(empty), head: head, id: codec.Identifier()}
	quoted, err := json.Marshal(string(e.id))
	if _, ok := e.versioned(data, 1); !ok || err != nil {
		return nil
	}
	e.asked = `"embeddedEncoder":` + string(quoted)
	return e
}

// encode gives what the codec would; ok is false for an object that it has to be asked about.
func (e *envelope) encode(obj runtime.Object) (data []byte, ok bool) {
	if e == nil || reflect.TypeOf(obj) != e.typ {
		return nil, false
	}
	m := obj.(sizedMarshaler)
	size := m.Size()
	begin := len(e.head) + 1 + uvarintLen(size)
	data = make([]byte, begin+size+len(tail))
	if n, err := m.MarshalToSizedBuffer(data[begin : begin+size]); err != nil || n != size {
		return nil, false // the codec says what is wrong
	}
	copy(data, e.head)
	data[len(e.head)] = tagObject
	binary.PutUvarint(data[len(e.head)+1:begin], uint64(size))
	copy(data[begin+size:], tail)
	return data, true
}

// versioned gives what encode would if the object that data is of had a resource version: data has none. ok is false
// for what is not encoded so, and for version 0, which is none.
func (e *envelope) versioned(data []byte, version uint64) (out []byte, ok bool) {
	object, ok := bytes.CutPrefix(data, e.head)
	if !ok || version == 0 {
		return nil, false
	}
	if object, ok = field(object, tagObject, len(tail)); !ok {
		return nil, false
	}
	// What surrounds the version: the object, its metadata, and all of that before and behind it.
	metadata, rest, ok := firstField(object, tagMetadata)
	if !ok {
		return nil, false
	}
	before := metadata
	for len(before) > 0 && before[0] < tagResourceVersion {
		if _, before, ok = firstField(before, before[0]); !ok {
			return nil, false
		}
	}
	if len(before) < 2 || before[0] != tagResourceVersion || before[1] != 0 {
		return nil, false
	}
	before, behind := metadata[:len(metadata)-len(before)], before[2:]

	var digits [20]byte
	number := strconv.AppendUint(digits[:0], version, 10)
	inner := len(metadata) + len(number)
	outer := 1 + uvarintLen(inner) + inner + len(rest)
	out = make([]byte, 0, len(e.head)+1+uvarintLen(outer)+outer+len(tail))
	out = append(append(out, e.head...), tagObject)
	out = binary.AppendUvarint(out, uint64(outer))
	out = append(out, tagMetadata)
	out = binary.AppendUvarint(out, uint64(inner))
	out = append(out, before...)
	out = append(append(out, tagResourceVersion, byte(len(number))), number...)
	out = append(append(out, behind...), rest...)
	return append(out, tail...), true
}

// asksFor reports whether an encoder of watch events wants objects as the codec encodes them, by its identifier.
func (e *envelope) asksFor(watch runtime.Identifier) bool {
	return strings.Contains(string(watch), e.asked)
}

// firstField takes apart bytes that begin with a field of bytes.
func firstField(b []byte, tag byte) (value, rest []byte, ok bool) {
	const lengthDelimited = 2
	if len(b) == 0 || b[0] != tag || tag&7 != lengthDelimited || tag >= 0x80 {
		return nil, nil, false
	}
	size, n := binary.Uvarint(b[1:])
	if n <= 0 || size > uint64(len(b)-1-n) {
		return nil, nil, false
	}
	b = b[1+n:]
	return b[:size], b[size:], true
}

// field gives the value of the field that b is, but for what is behind it.
func field(b []byte, tag byte, behind int) (value []byte, ok bool) {
	value, rest, ok := firstField(b, tag)
	return value, ok && len(rest) == behind
}

func uvarintLen(n int) int { return (bits.Len(uint(n)|1) + 6) / 7 }
