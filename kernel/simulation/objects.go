package simulation

import (
	"bytes"
	"errors"
	"io"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// EachObject hands on each object of a document of YAML or JSON, also those of lists. Kinds that
// client-go does not know are left out: no placement goes by them.
func EachObject(data []byte, visit func(runtime.Object) error) error {
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var raw runtime.RawExtension
		if err := documents.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(raw.Raw) == 0 || string(raw.Raw) == "null" {
			continue
		}
		if err := visitRaw(raw.Raw, visit); err != nil {
			return err
		}
	}
}

func visitRaw(data []byte, visit func(runtime.Object) error) error {
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		return nil // no kind that a placement goes by
	}
	if err != nil {
		return err
	}
	list, ok := o.(*v1.List)
	if !ok {
		if meta.IsListType(o) {
			return meta.EachListItem(o, visit)
		}
		return visit(o)
	}
	for i := range list.Items {
		if err := visitRaw(list.Items[i].Raw, visit); err != nil {
			return err
		}
	}
	return nil
}
