package sdk

import "fmt"

// wire reads the protobuf encoding field by field. It exists so that a WASM
// module needs no protobuf runtime, which would be larger than the plugins.
type wire struct {
	data []byte
	bad  bool
}

// Wire types of the protobuf encoding.
const (
	wireVarint = 0
	wireFixed8 = 1
	wireBytes  = 2
	wireFixed4 = 5
)

// field is one decoded field: number for varints and fixed ones, bytes for the rest.
type field struct {
	tag    uint32
	kind   byte // wire type
	number uint64
	bytes  []byte
}

// next returns the next field; false at the end or when the data is malformed (bad).
func (w *wire) next(f *field) bool {
	if len(w.data) == 0 || w.bad {
		return false
	}
	key := w.varint()
	f.tag, f.kind, f.number, f.bytes = uint32(key>>3), byte(key&7), 0, nil
	if w.bad || f.tag == 0 || key>>3 > 1<<29-1 {
		w.bad = true
		return false
	}
	switch key & 7 {
	case wireVarint:
		f.number = w.varint()
	case wireBytes:
		size := w.varint()
		if w.bad || size > uint64(len(w.data)) {
			w.bad = true
			return false
		}
		f.bytes, w.data = w.data[:size:size], w.data[size:]
	case wireFixed8:
		w.skip(8)
	case wireFixed4:
		w.skip(4)
	default:
		w.bad = true
	}
	return !w.bad
}

func (w *wire) varint() uint64 {
	var v uint64
	for i := 0; i < len(w.data) && i < 10; i++ {
		b := w.data[i]
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			w.data = w.data[i+1:]
			return v
		}
	}
	w.bad = true
	return 0
}

func (w *wire) skip(n int) {
	if n > len(w.data) {
		w.bad = true
		return
	}
	w.data = w.data[n:]
}

// message calls visit for each field of an encoded message.
func message(data []byte, what string, visit func(f *field) error) error {
	w, f := wire{data: data}, field{}
	for w.next(&f) {
		if err := visit(&f); err != nil {
			return err
		}
	}
	if w.bad {
		return fmt.Errorf("%w: %s", ErrDelta, what)
	}
	return nil
}

// text returns a field as a string of its own, so that the host's buffer can be reused.
func (f *field) text() string { return string(f.bytes) }

// into takes in a text whose number is that of its place in to, from 1, and
// reports whether it is one of them.
func (f *field) into(to ...*string) bool {
	if int(f.tag) > len(to) {
		return false
	}
	*to[f.tag-1] = f.text()
	return true
}

// texts decodes a message whose fields are texts, numbered from 1.
func texts(data []byte, what string, to ...*string) error {
	return message(data, what, func(f *field) error {
		f.into(to...)
		return nil
	})
}

// stringEntry adds one entry of a map<string, string>.
func stringEntry(m map[string]string, f *field) (map[string]string, error) {
	var key, value string
	err := texts(f.bytes, "map entry", &key, &value)
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m, err
}

// numberEntry adds one entry of a map<string, int64>.
func numberEntry(m map[string]int64, f *field) (map[string]int64, error) {
	var key string
	var value int64
	err := message(f.bytes, "map entry", func(e *field) error {
		switch e.tag {
		case 1:
			key = e.text()
		case 2:
			value = int64(e.number)
		}
		return nil
	})
	if m == nil {
		m = map[string]int64{}
	}
	m[key] = value
	return m, err
}
