package quantities

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Members of an entry of a map, and the text of a quantity.
const (
	textNumber  = 1
	keyNumber   = 1
	valueNumber = 2
)

// walkProtobuf reads one message. What does not fit the type is left to the decoder.
func walkProtobuf(data []byte, s *shape, path []string) error {
	var key string
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
			return nil
		}
		value := data[:n]
		data = data[n:]
		if kind != protowire.BytesType {
			continue
		}
		if value, n = protowire.ConsumeBytes(value); n < 0 {
			return nil
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
