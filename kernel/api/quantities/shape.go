package quantities

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
)

var (
	quantity    = reflect.TypeFor[resource.Quantity]()
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
)

// shape is where the quantities of a Go type are; a type without any has none.
type shape struct {
	quantity bool
	// item is that of the items of a list or the values of a map.
	item *shape
	list bool
	// fields are those of a struct that have quantities, by their names in JSON.
	fields map[string]*shape
	// numbers are the same fields by their numbers in protobuf.
	numbers map[int]field
}

type field struct {
	name string
	*shape
}

var shapes struct {
	sync.Mutex
	known map[reflect.Type]*shape
}

// shapeOf is nil where a type has no quantities. The types of an API have no cycles
// that go through a quantity, and a cycle without one counts as nothing.
func shapeOf(t reflect.Type) *shape {
	shapes.Lock()
	defer shapes.Unlock()
	if shapes.known == nil {
		shapes.known = map[reflect.Type]*shape{}
	}
	return build(t)
}

func build(t reflect.Type) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == quantity {
		return &shape{quantity: true}
	}
	if s, ok := shapes.known[t]; ok {
		return s
	}
	shapes.known[t] = nil // for a cycle
	s := read(t)
	shapes.known[t] = s
	return s
}

func read(t reflect.Type) *shape {
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		if item := build(t.Elem()); item != nil {
			return &shape{item: item, list: t.Kind() != reflect.Map}
		}
	case reflect.Struct:
		if reflect.PointerTo(t).Implements(unmarshaler) {
			return nil
		}
		s := &shape{fields: map[string]*shape{}, numbers: map[int]field{}}
		s.add(t)
		if len(s.fields) > 0 {
			return s
		}
	}
	return nil
}

func (s *shape) add(t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := build(f.Type)
		// A struct that is inline in JSON is a field of its own in protobuf.
		if tag := strings.Split(f.Tag.Get("protobuf"), ","); inner != nil && len(tag) > 1 {
			if n, err := strconv.Atoi(tag[1]); err == nil {
				s.numbers[n] = field{name: name, shape: inner}
			}
		}
		if name == "" && (f.Anonymous || strings.Contains(options, "inline")) {
			if inner != nil {
				for name, f := range inner.fields {
					s.fields[name] = f
				}
			}
			continue
		}
		if name == "" {
			name = f.Name
		}
		if inner != nil && name != "-" {
			s.fields[name] = inner
		}
	}
}
