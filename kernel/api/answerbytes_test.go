package api

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestWriteAnswer: what is made of a stored encoding is, byte for byte, the encoding of
// the object with its resource version.
func TestWriteAnswer(t *testing.T) {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		t.Fatal("no protobuf")
	}
	encoded := func(pod *corev1.Pod) []byte {
		data, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), pod)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	now := metav1.Now()
	cases := map[string]*corev1.Pod{
		"empty": {},
		"plain": {ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default", UID: "u", Generation: 1, CreationTimestamp: now}},
		"rich": {
			ObjectMeta: metav1.ObjectMeta{
				Name: "a", GenerateName: "g", Namespace: "n", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "\n2\x00"},
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", Time: &now, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte("{}")}}},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		},
		// Lengths that take another byte with the version, or almost.
		"around 127": {ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("x", 88)}},
		"around 16K": {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": strings.Repeat("x", 16<<10-300)}}},
	}
	for name, pod := range cases {
		for _, version := range []string{"1", "9007199254740993", strings.Repeat("7", 200)} {
			for extra := range 60 {
				t.Run(fmt.Sprintf("%s %.20s %d", name, version, extra), func(t *testing.T) {
					pod := pod.DeepCopy()
					pod.Spec.Hostname = strings.Repeat("h", extra)
					pod.SelfLink = strings.Repeat("s", extra)
					stored := encoded(pod)
					before := bytes.Clone(stored)
					pod.ResourceVersion = version
					var out bytes.Buffer
					if !writeAnswer(&out, stored, version) {
						t.Fatal("not written")
					}
					if !bytes.Equal(out.Bytes(), encoded(pod)) {
						t.Errorf("wrote\n%q, want\n%q", out.Bytes(), encoded(pod))
					}
					if !bytes.Equal(stored, before) {
						t.Error("what is stored has changed")
					}
				})
			}
		}
	}
}

// TestWriteAnswerRefuses: what is not an encoded object gives nothing.
func TestWriteAnswerRefuses(t *testing.T) {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	whole, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	bad := [][]byte{nil, []byte("k8s"), []byte("k8s\x00"), []byte(`{"kind":"Pod"}`), []byte("k8s\x00\x12\x00"), []byte("k8s\x00\x10\x01"), []byte("k8s\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f")}
	for n := range len(whole) - 40 {
		bad = append(bad, whole[:n])
	}
	for _, data := range bad {
		var out bytes.Buffer
		if writeAnswer(&out, data, "1") || out.Len() != 0 {
			t.Errorf("%q: wrote %q", data, out.Bytes())
		}
	}
}
