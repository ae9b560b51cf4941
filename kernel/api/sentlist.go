package api

import (
	"context"
	"net/http"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"pintle.dev/pintle/kernel/api/answers"
	"pintle.dev/pintle/kernel/api/resources"
	"pintle.dev/pintle/kernel/api/storage"
)

type sentAsKey struct{}

// sendingLists tells the stores which lists are sent as they are, neither as a
// table nor in part nor indented, and in what media type: those can be put
// together from encodings that the storage keeps. It also lets what the server
// itself follows go on without objects that are damaged.
func sendingLists(next http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if u, ok := request.UserFrom(req.Context()); ok && u.GetName() == user.APIServerUser {
			req = req.WithContext(storage.WithoutCorruptObjects(req.Context()))
		}
		if mediaType, ok := sendsList(req, serializer); ok {
			req = req.WithContext(context.WithValue(req.Context(), sentAsKey{}, mediaType))
		}
		next.ServeHTTP(w, req)
	})
}

func sendsList(req *http.Request, serializer runtime.NegotiatedSerializer) (string, bool) {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok || !info.IsResourceRequest || info.Verb != "list" {
		return "", false
	}
	if ac := audit.AuditContextFrom(req.Context()); ac != nil && !ac.GetEventLevel().Less(auditinternal.LevelRequestResponse) {
		return "", false // which may leave out managed fields
	}
	accepted, ok := answers.Plain(req, serializer)
	return accepted.MediaType, ok
}

// sentLists are copies of a kind's store, by media type, whose lists are
// encoded.
func sentLists(k resources.Kind, store *genericregistry.Store, serializer runtime.NegotiatedSerializer) map[string]*genericregistry.Store {
	if _, ok := store.Storage.Storage.(*storage.Storage); !ok || store.Decorator != nil {
		return nil
	}
	out := map[string]*genericregistry.Store{}
	_, protobuf := k.New().(interface{ Marshal() ([]byte, error) })
	for _, info := range serializer.SupportedMediaTypes() {
		if info.MediaType != runtime.ContentTypeJSON && (info.MediaType != runtime.ContentTypeProtobuf || !protobuf) {
			continue
		}
		id := serializer.EncoderForVersion(info.Serializer, k.GVK.GroupVersion()).Identifier()
		gvk := k.GVK.GroupVersion().WithKind(k.GVK.Kind + "List")
		encoded := *store
		encoded.NewListFunc = func() runtime.Object {
			return storage.NewEncodedList(gvk, info.MediaType, id, k.NewList)
		}
		out[info.MediaType] = &encoded
	}
	return out
}

// List gives a list that is sent in the version that is stored as encodings.
func (r *kindREST) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	store := r.Store
	if mediaType, ok := ctx.Value(sentAsKey{}).(string); ok {
		info, _ := request.RequestInfoFrom(ctx)
		if sent := r.sent[mediaType]; sent != nil && info.APIGroup == r.gv.Group && info.APIVersion == r.gv.Version {
			store = sent
		}
	}
	return store.List(ctx, options)
}
