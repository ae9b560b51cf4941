package quantities

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"
)

// CheckJSON refuses JSON that decodes into a value of out's type with a quantity that
// is too large. JSON with another fault is left to the decoder.
func CheckJSON(data []byte, out any) error {
	return checkText(data, reflect.TypeOf(out), false)
}

func checkText(data []byte, t reflect.Type, isYAML bool) error {
	if isYAML {
		// YAML has more ways to write a text than a scan can know.
		if json.Valid(data) && !suspicious(data, false) {
			return nil
		}
		var err error
		if data, err = yaml.YAMLToJSON(data); err != nil {
			return nil //nolint:nilerr // the decoder says it
		}
	} else if !suspicious(data, false) {
		return nil
	}
	s := shapeOf(t)
	if s == nil || !json.Valid(data) {
		return nil
	}
	// Tokens, and not a map: of two members with one name the decoder reads both.
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return walk(d, s, nil)
}

// walk reads the next value.
func walk(d *json.Decoder, s *shape, path []string) error {
	if s == nil {
		return d.Decode(&skipped{})
	}
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return err
			}
			name, inner := key.(string), s.item
			if s.list {
				inner = nil
			} else if inner == nil {
				inner = s.named(name)
			}
			if s.item != nil {
				name = "[" + name + "]"
			}
			if err := walk(d, inner, append(path, name)); err != nil {
				return err
			}
		}
		_, err = d.Token()
		return err
	case json.Delim('['):
		var inner *shape
		if s.list {
			inner = s.item
		}
		for i := 0; d.More(); i++ {
			if err := walk(d, inner, append(path, fmt.Sprintf("[%d]", i))); err != nil {
				return err
			}
		}
		_, err = d.Token()
		return err
	}
	if s.quantity && token != nil {
		return at(path, check(fmt.Sprint(token)))
	}
	return nil
}

// named is a field. Names with other letters in upper case count too: some decoders
// take them.
func (s *shape) named(name string) *shape {
	if inner, ok := s.fields[name]; ok {
		return inner
	}
	for n, inner := range s.fields {
		if strings.EqualFold(n, name) {
			return inner
		}
	}
	return nil
}

// skipped takes any value.
type skipped struct{}

func (*skipped) UnmarshalJSON([]byte) error { return nil }

// at says where something is wrong.
func at(path []string, err error) error {
	if err == nil || len(path) == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", strings.ReplaceAll(strings.Join(path, "."), ".[", "["), err)
}
