package quantities

import (
	"bytes"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"
)

// Decoder decodes objects of a scheme whose quantities have a bounded size.
type Decoder struct {
	runtime.Decoder
	Scheme    *runtime.Scheme
	MediaType string
}

// protobufPrefix begins an object in protobuf.
const protobufPrefix = "k8s\x00"

// Decode implements runtime.Decoder.
func (d Decoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if err := d.check(data, defaults, into); err != nil {
		return nil, nil, err
	}
	return d.Decoder.Decode(data, defaults, into)
}

func (d Decoder) check(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) error {
	if d.MediaType == runtime.ContentTypeProtobuf {
		return d.checkProtobuf(data, defaults, into)
	}
	if d.MediaType == runtime.ContentTypeCBOR {
		var ok bool
		if data, ok = fromCBOR(data); !ok {
			return nil // the decoder says it
		}
	}
	isYAML := d.MediaType == runtime.ContentTypeYAML
	if !isYAML && !suspicious(data, false) {
		return nil
	}
	text := data
	if isYAML {
		var err error
		if text, err = yaml.YAMLToJSON(data); err != nil {
			return nil //nolint:nilerr // the decoder says it
		}
	}
	own := &schema.GroupVersionKind{}
	if kind, err := json.DefaultMetaFactory.Interpret(text); err == nil {
		own = kind
	}
	for _, t := range d.types(*own, defaults, into) {
		if err := checkText(data, t, isYAML); err != nil {
			return err
		}
	}
	return nil
}

func (d Decoder) checkProtobuf(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) error {
	raw, ok := bytes.CutPrefix(data, []byte(protobufPrefix))
	if !ok || !suspicious(raw, true) {
		return nil
	}
	var wrapped runtime.Unknown
	if err := wrapped.Unmarshal(raw); err != nil {
		return nil //nolint:nilerr // the decoder says it
	}
	for _, t := range d.types(wrapped.GroupVersionKind(), defaults, into) {
		if s := shapeOf(t); s != nil {
			if err := walkProtobuf(wrapped.Raw, s, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// types are those that a decoder may choose: the object's own kind, the one that the
// request stands for, and a mixture of both.
func (d Decoder) types(own schema.GroupVersionKind, defaults *schema.GroupVersionKind, into runtime.Object) []reflect.Type {
	var out []reflect.Type
	add := func(gvk schema.GroupVersionKind) {
		if t, ok := d.Scheme.AllKnownTypes()[gvk]; ok && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	add(own)
	if defaults != nil {
		add(*defaults)
		add(defaults.GroupVersion().WithKind(own.Kind))
		add(own.GroupVersion().WithKind(defaults.Kind))
	}
	if into != nil {
		if t := reflect.TypeOf(into).Elem(); !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}
