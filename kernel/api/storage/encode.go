package storage

import "k8s.io/apimachinery/pkg/runtime"

// encode gives obj as it is stored.
func (s *Storage) encode(obj runtime.Object) ([]byte, error) {
	if data, ok := s.envelope.encode(obj); ok {
		return data, nil
	}
	codec := s.codec
	if c, ok := codec.(corruptCodec); ok {
		codec = c.Codec
	}
	direct, ok := codec.(runtime.EncoderWithAllocator)
	if !ok {
		return runtime.Encode(codec, obj)
	}
	var out taken
	if err := direct.EncodeWithAllocator(obj, &out, &out); err != nil {
		return nil, err
	}
	return out.written, nil
}

// taken gives an encoder its memory and takes what is written: not a copy of it,
// where that is the memory it gave.
type taken struct{ given, written []byte }

func (t *taken) Allocate(n uint64) []byte {
	t.given = make([]byte, n)
	return t.given
}

func (t *taken) Write(p []byte) (int, error) {
	if t.written == nil && len(p) > 0 && len(t.given) > 0 && &p[0] == &t.given[0] {
		t.written, t.given = p[:len(p):len(p)], nil
		return len(p), nil
	}
	t.written = append(t.written, p...)
	return len(p), nil
}
