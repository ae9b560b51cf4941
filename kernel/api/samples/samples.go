package samples

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	strict "sigs.k8s.io/json"
)

var (
	//go:embed pod.json
	pods []byte
	//go:embed event.json
	events []byte
)

// Dictionaries gives, by the prefix of the keys, the samples of each kind as they would be stored.
func Dictionaries() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, kind := range []struct {
		prefix  string
		samples []byte
		empty   func() runtime.Object
	}{
		{"/registry/pods/", pods, func() runtime.Object { return new(corev1.Pod) }},
		{"/registry/events/", events, func() runtime.Object { return new(corev1.Event) }},
	} {
		text, err := encode(kind.samples, kind.empty)
		if err != nil {
			return nil, fmt.Errorf("samples for %s: %w", kind.prefix, err)
		}
		out[kind.prefix] = text
	}
	return out, nil
}

// encode gives the objects of a list one behind the other, each as the storage encodes it.
func encode(list []byte, empty func() runtime.Object) ([]byte, error) {
	var compact, out bytes.Buffer
	if err := json.Compact(&compact, list); err != nil { // managedFields are stored as they are read
		return nil, err
	}
	var samples []json.RawMessage
	if err := json.Unmarshal(compact.Bytes(), &samples); err != nil {
		return nil, err
	}
	encoder := protobuf.NewSerializer(nil, nil)
	for _, sample := range samples {
		obj := empty()
		unknown, err := strict.UnmarshalStrict(sample, obj)
		if err := errors.Join(append(unknown, err)...); err != nil {
			return nil, err
		}
		if err := encoder.Encode(obj, &out); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}
