package api

import (
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"pintle.dev/pintle/kernel/api/resources"
	"pintle.dev/pintle/kernel/api/storage"
)

// The encoders that answers are written by are those that encoded lists are
// made for: else each would be decoded again.
func TestSentListsMeetTheirEncoder(t *testing.T) {
	scheme, err := newScheme(nil)
	if err != nil {
		t.Fatal(err)
	}
	encoding := sharedEncoding{NegotiatedSerializer: serializer.NewCodecFactory(scheme), scheme: scheme}
	decoded := false
	k := resources.Kind{
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"),
		New: func() runtime.Object { return &corev1.Pod{} },
		NewList: func() runtime.Object {
			decoded = true
			return &corev1.PodList{}
		},
	}
	store := &genericregistry.Store{Storage: genericregistry.DryRunnableStorage{Storage: &storage.Storage{}}}
	sent := sentLists(k, store, encoding)
	for _, tc := range []struct {
		accept  string
		gv      schema.GroupVersion
		decoded bool
	}{
		{accept: runtime.ContentTypeJSON, gv: corev1.SchemeGroupVersion},
		{accept: runtime.ContentTypeProtobuf, gv: corev1.SchemeGroupVersion},
		{accept: "application/json;pretty=1", gv: corev1.SchemeGroupVersion, decoded: true},
		{accept: runtime.ContentTypeYAML, gv: corev1.SchemeGroupVersion, decoded: true},
	} {
		for mediaType, store := range sent {
			if !tc.decoded && mediaType != tc.accept {
				continue
			}
			decoded = false
			req := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
			req.Header.Set("Accept", tc.accept)
			w := httptest.NewRecorder()
			responsewriters.WriteObjectNegotiated(encoding, negotiation.DefaultEndpointRestrictions, tc.gv, w, req, http.StatusOK, store.NewListFunc(), false)
			if w.Code != http.StatusOK || decoded != tc.decoded {
				t.Errorf("an encoded list of %s sent as %s: %d, decoded: %v, want %v", mediaType, tc.accept, w.Code, decoded, tc.decoded)
			}
		}
	}
	if len(sent) != 2 {
		t.Errorf("encoded lists in %d forms, want 2", len(sent))
	}
}
