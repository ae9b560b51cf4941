package quantities

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// text is what a quantity is parsed from, before it is parsed.
type text string

func (t *text) UnmarshalJSON(raw []byte) error {
	s := string(raw)
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s = s[1 : len(s)-1]
	}
	if s != "null" {
		*t = text(s)
	}
	return nil
}

// texts are the quantities of some fields of a pod, in the pod's own form.
type texts struct {
	Spec struct {
		Overhead   map[string]text `json:"overhead"`
		Containers []struct {
			Resources struct {
				Requests map[string]text `json:"requests"`
				Limits   map[string]text `json:"limits"`
			} `json:"resources"`
		} `json:"containers"`
		Volumes []struct {
			EmptyDir *struct {
				SizeLimit *text `json:"sizeLimit"`
			} `json:"emptyDir"`
		} `json:"volumes"`
	} `json:"spec"`
}

// large is a text that is refused, or empty.
func (p *texts) large() string {
	var all []text
	add := func(m map[string]text) {
		for _, t := range m {
			all = append(all, t)
		}
	}
	add(p.Spec.Overhead)
	for _, c := range p.Spec.Containers {
		add(c.Resources.Requests)
		add(c.Resources.Limits)
	}
	for _, v := range p.Spec.Volumes {
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil {
			all = append(all, *v.EmptyDir.SizeLimit)
		}
	}
	for _, t := range all {
		// Without a digit in front it is no quantity, and the parser sees that at once.
		if check(string(t)) != nil && !bare.MatchString(string(t)) {
			return string(t)
		}
	}
	return ""
}

var bare = regexp.MustCompile(`^[\s+-]*[eE]`)

const somePod = `{"spec":{"overhead":{"cpu":%},"volumes":[{"emptyDir":{"sizeLimit":"1Gi"}}],"containers":[{"resources":{"requests":{"memory":%}}}]}}`

// FuzzText: what passes holds, as the decoders of JSON and YAML read it, no quantity that is too large.
func FuzzText(f *testing.F) {
	for _, value := range []string{`"1"`, `1e99999`, `"1e99999"`, `"1\u006599999"`, `"\n1e100"`, `null`, `"1e99","cpu":"1e100"`, `"` + strings.Repeat("9", 65) + `"`} {
		f.Add([]byte(strings.ReplaceAll(somePod, "%", value)), false)
		f.Add([]byte(strings.ReplaceAll(somePod, "%", value)), true)
	}
	f.Add([]byte("spec: {overhead: {cpu: !!binary MWU5OTk5OQ==}}"), true)
	f.Add([]byte("a: &a {cpu: '1e100'}\nspec: {overhead: {<<: *a}}"), true)
	f.Fuzz(func(t *testing.T, data []byte, isYAML bool) {
		if len(data) > 4096 {
			t.Skip()
		}
		d, js := Decoder{Scheme: scheme.Scheme, MediaType: runtime.ContentTypeJSON}, data
		if isYAML {
			d.MediaType = runtime.ContentTypeYAML
			var err error
			if js, err = yaml.YAMLToJSON(data); err != nil {
				return
			}
		}
		if d.check(data, nil, &corev1.Pod{}) != nil {
			return
		}
		var strict, loose texts
		if err := kjson.UnmarshalCaseSensitivePreserveInts(js, &strict); err == nil && strict.large() != "" {
			t.Errorf("%q passes, and is read as %q", data, strict.large())
		}
		if err := json.Unmarshal(js, &loose); err == nil && loose.large() != "" {
			t.Errorf("%q passes, and is read as %q without regard to case", data, loose.large())
		}
	})
}

// podBytes is a pod in protobuf with overhead of these texts, written with the tags given.
func podBytes(text string, before ...byte) []byte {
	q := protowire.AppendString(protowire.AppendTag(nil, textNumber, protowire.BytesType), text)
	entry := protowire.AppendString(protowire.AppendTag(nil, keyNumber, protowire.BytesType), "cpu")
	entry = protowire.AppendBytes(protowire.AppendTag(entry, valueNumber, protowire.BytesType), q)
	spec := protowire.AppendBytes(protowire.AppendTag(bytes.Clone(before), 32, protowire.BytesType), entry)
	return protowire.AppendBytes(protowire.AppendTag(bytes.Clone(before), 2, protowire.BytesType), spec)
}

// What the generated decoders read otherwise than the protocol says hides no quantity:
// they cut numbers of fields to 32 bits, and let groups end under another number.
func TestHiddenInProtobuf(t *testing.T) {
	s := shapeOf(reflect.TypeFor[corev1.Pod]())
	long := []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7e}
	for name, before := range map[string][]byte{
		"plainly":                       nil,
		"after a number past 31 bits":   protowire.AppendVarint(protowire.AppendVarint(nil, (1<<32|100)<<3|uint64(protowire.VarintType)), 1),
		"after a group that ends as 61": protowire.AppendTag(protowire.AppendTag(nil, 60, protowire.StartGroupType), 61, protowire.EndGroupType),
		"after a number past 64 bits":   append(protowire.AppendTag(nil, 60, protowire.VarintType), long...),
	} {
		data := podBytes("1e100", before...)
		pod := &corev1.Pod{}
		if err := pod.Unmarshal(data); err != nil || pod.Spec.Overhead.Cpu().IsZero() {
			t.Errorf("%s: the decoder reads %v, %v; it was to read the quantity", name, pod.Spec.Overhead, err)
		}
		if err := walkProtobuf(data, s, nil); err == nil {
			t.Errorf("a quantity %s passes", name)
		}
	}
	for name, data := range map[string][]byte{
		"in a field with a number past 31 bits": append(protowire.AppendVarint(nil, (1<<32|2)<<3|uint64(protowire.BytesType)), podBytes("1e100")[1:]...),
		"in an entry that says it is a number":  bytes.Replace(podBytes("1e100"), []byte("\x12\x07\x0a\x05"), []byte("\x10\x07\x0a\x05"), 1),
	} {
		pod := &corev1.Pod{}
		if err := pod.Unmarshal(data); err != nil || pod.Spec.Overhead.Cpu().IsZero() {
			t.Errorf("%s: the decoder reads %v, %v; it was to read the quantity", name, pod.Spec.Overhead, err)
		}
		if err := walkProtobuf(data, s, nil); err == nil {
			t.Errorf("a quantity %s passes", name)
		}
	}
}

// FuzzProtobuf: of what the decoder reads as a quantity the walk sees the text. The text
// is one of some value. Another of the same length, which is too large, is refused there.
func FuzzProtobuf(f *testing.F) {
	const small, large = "1234567", "1e99999"
	f.Add(podBytes(small))
	f.Add(podBytes(small, protowire.AppendTag(protowire.AppendTag(nil, 60, protowire.StartGroupType), 60, protowire.EndGroupType)...))
	f.Add(podBytes("1Gi"))
	for _, values := range [][]any{{`"1"`, `"` + small + `"`}, {`"` + small + `"`, `"1"`}} {
		pod := &corev1.Pod{}
		if err := json.Unmarshal(fmt.Appendf(nil, strings.ReplaceAll(somePod, "%", "%s"), values...), pod); err != nil {
			f.Fatal(err)
		}
		whole, err := pod.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(whole)
	}
	s := shapeOf(reflect.TypeFor[corev1.Pod]())
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 || bytes.Count(data, []byte(small)) != 1 || suspicious(data, true) || walkProtobuf(data, s, nil) != nil {
			return
		}
		pod := &corev1.Pod{}
		if err := pod.Unmarshal(data); err != nil {
			return
		}
		lists := []corev1.ResourceList{pod.Spec.Overhead}
		for _, c := range pod.Spec.Containers {
			lists = append(lists, c.Resources.Requests, c.Resources.Limits)
		}
		for _, list := range lists {
			for name, q := range list {
				if q.String() == small && walkProtobuf(bytes.Replace(data, []byte(small), []byte(large), 1), s, nil) == nil {
					t.Errorf("%x: the text of %q is not seen", data, name)
				}
			}
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestHiddenInCBOR: each form in which the decoder takes a text is seen. It reads bytes as their base64.
func TestHiddenInCBOR(t *testing.T) {
	for name, value := range map[string]any{"text": "1e100", "number": 1e100, "bytes": must(base64.StdEncoding.DecodeString("001e1000"))} {
		data, err := cbor.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"overhead": map[string]any{"cpu": value}}})
		if err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{}
		err = cbor.Unmarshal(data, pod)
		read := err == nil && !pod.Spec.Overhead.Cpu().IsZero()
		refused := Decoder{Scheme: scheme.Scheme, MediaType: runtime.ContentTypeCBOR}.check(data, nil, &corev1.Pod{}) != nil
		if name != "number" && !read {
			t.Errorf("%s: the decoder reads %v, %v; it was to read the quantity", name, pod.Spec.Overhead, err)
		}
		if read && !refused {
			t.Errorf("%s: the decoder reads %v, and the check passes it", name, pod.Spec.Overhead)
		}
	}
}
