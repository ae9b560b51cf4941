package samples

import (
	"bufio"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

var (
	//go:embed pod.yaml
	pods []byte
	//go:embed event.yaml
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

// encode gives the documents one behind the other, each as the storage encodes it.
func encode(documents []byte, empty func() runtime.Object) ([]byte, error) {
	var out bytes.Buffer
	encoder := protobuf.NewSerializer(nil, nil)
	for each := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(documents))); ; {
		document, err := each.Read()
		if errors.Is(err, io.EOF) {
			return out.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
		obj := empty()
		if err := yaml.UnmarshalStrict(document, obj); err != nil {
			return nil, err
		}
		if err := encoder.Encode(obj, &out); err != nil {
			return nil, err
		}
	}
}
