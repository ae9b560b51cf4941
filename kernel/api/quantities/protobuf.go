package quantities

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// Members of an entry of a map, and the text of a quantity.
const (
	textNumber  = 1
	keyNumber   = 1
	valueNumber = 2
)

// errForm is of bytes that the generated decoders may read otherwise than the protocol
// says: they cut the numbers of fields to 32 bits, let a group end under another number,
// and take the parts of an entry for bytes whatever they say. No encoder writes such.
var errForm = errors.New("not well-formed protobuf")

// walkProtobuf reads one message.
func walkProtobuf(data []byte, s *shape, path []string) error {
	var key string
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return at(path, errForm)
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
			return at(path, errForm)
		}
		value := data[:n]
		data = data[n:]
		if kind != protowire.BytesType {
			if s.item != nil && number <= valueNumber {
				return at(path, errForm)
			}
			continue // a field of another kind, or an error of the decoder's
		}
		if value, n = protowire.ConsumeBytes(value); n < 0 {
			return at(path, errForm)
		}
		switch {
		case s.quantity:
			if number == textNumber {
				if err := at(path, check(string(value))); err != nil {
					return err
				}
			}
		case s.item != nil: // an entry of a map
			if number == keyNumber {
				key = "[" + string(value) + "]"
			}
			if number == valueNumber {
				if err := walkProtobuf(value, s.item, append(path, key)); err != nil {
					return err
				}
			}
		default:
			f, ok := s.numbers[int(number)]
			if !ok {
				continue
			}
			inner := path
			if f.name != "" {
				inner = append(path, f.name)
			}
			if f.list {
				f.shape = f.item // each item is a field
			}
			if err := walkProtobuf(value, f.shape, inner); err != nil {
				return err
			}
		}
	}
	return nil
}
