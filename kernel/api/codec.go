package api

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"pintle.dev/pintle/kernel/api/quantities"
)

// newCodecs gives the codecs by which objects are sent.
func newCodecs(scheme *runtime.Scheme) serializer.CodecFactory {
	options := []serializer.CodecFactoryOptionsMutator{
		serializer.WithStreamingCollectionEncodingToJSON(), serializer.WithStreamingCollectionEncodingToProtobuf(),
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.CBORServingAndStorage) {
		options = append(options, serializer.WithSerializer(cbor.NewSerializerInfo))
	}
	return serializer.NewCodecFactory(scheme, options...)
}

// sharedEncoding is a negotiated serializer whose encoders never write into
// the object they encode. Where the stored and the served type are different,
// conversion makes a new object; here they are the same, and setting the
// served version on it would be a race between readers of one shared object.
type sharedEncoding struct {
	runtime.NegotiatedSerializer
	scheme *runtime.Scheme
}

func (s sharedEncoding) EncoderForVersion(e runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	return versioning.NewCodec(e, nil, shallowConvertor{s.scheme}, s.scheme, s.scheme, nil, gv, nil, s.scheme.Name())
}

// DecoderToVersion is that of objects that a client sent, or has patched.
func (s sharedEncoding) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	out := quantities.Decoder{Decoder: s.NegotiatedSerializer.DecoderToVersion(d, gv), Scheme: s.scheme, MediaType: runtime.ContentTypeYAML}
	for _, info := range s.SupportedMediaTypes() {
		if d == info.Serializer || d == info.StrictSerializer {
			out.MediaType = info.MediaType
		}
	}
	return out
}

// shallowConvertor sets the version on a shallow copy where source and target
// are one Go type.
type shallowConvertor struct{ scheme *runtime.Scheme }

var _ runtime.ObjectConvertor = shallowConvertor{}

func (c shallowConvertor) Convert(in, out, context any) error {
	return c.scheme.Convert(in, out, context)
}

func (c shallowConvertor) ConvertFieldLabel(gvk schema.GroupVersionKind, label, value string) (string, string, error) {
	return c.scheme.ConvertFieldLabel(gvk, label, value)
}

func (c shallowConvertor) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	v := reflect.ValueOf(in)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return c.scheme.UnsafeConvertToVersion(in, target)
	}
	kinds, unversioned, err := c.scheme.ObjectKinds(in)
	if err != nil || unversioned {
		return c.scheme.UnsafeConvertToVersion(in, target)
	}
	gvk, ok := target.KindForGroupVersionKinds(kinds)
	if !ok || c.scheme.AllKnownTypes()[gvk] != v.Elem().Type() {
		return c.scheme.UnsafeConvertToVersion(in, target)
	}
	out := reflect.New(v.Elem().Type())
	out.Elem().Set(v.Elem())
	obj := out.Interface().(runtime.Object)
	if gvk.Version == runtime.APIVersionInternal {
		gvk = schema.GroupVersionKind{}
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj, nil
}

func newStorageOptions(b Backend, scheme *runtime.Scheme, codecs serializer.CodecFactory, stored func(schema.GroupResource) (schema.GroupVersion, runtime.Object, bool)) storageOptions {
	return storageOptions{
		RESTOptionsGetter: b.RESTOptionsGetter(b.NewFactory(scheme, codecs, runtime.ContentTypeProtobuf)),
		scheme:            scheme, codecs: codecs, stored: stored,
	}
}

// storageOptions gives each resource of a scheme the codec that it is stored
// with: protobuf where its type has it, else JSON, in the version served.
type storageOptions struct {
	generic.RESTOptionsGetter
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	// stored names the type a resource is stored as.
	stored func(schema.GroupResource) (schema.GroupVersion, runtime.Object, bool)
}

func (o storageOptions) GetRESTOptions(gr schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := o.RESTOptionsGetter.GetRESTOptions(gr, example)
	if err != nil {
		return opts, err
	}
	gv, obj, ok := o.stored(gr)
	if !ok {
		return opts, fmt.Errorf("storage of %s: no such resource", gr)
	}
	mediaType := runtime.ContentTypeJSON
	if _, ok := obj.(interface{ Marshal() ([]byte, error) }); ok {
		mediaType = runtime.ContentTypeProtobuf
	}
	info, ok := runtime.SerializerInfoForMediaType(o.codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		return opts, fmt.Errorf("storage of %s: no serializer for %s", gr, mediaType)
	}
	internal := schema.GroupVersion{Group: gv.Group, Version: runtime.APIVersionInternal}
	cfg := storagebackend.ConfigForResource{GroupResource: gr}
	if opts.StorageConfig != nil {
		cfg = *opts.StorageConfig
	}
	cfg.Codec = versioning.NewCodec(info.Serializer, o.codecs.UniversalDeserializer(), shallowConvertor{o.scheme},
		o.scheme, o.scheme, o.scheme, gv, internal, o.scheme.Name())
	cfg.EncodeVersioner = gv
	opts.StorageConfig = &cfg
	return opts, nil
}

// quantities checks patches whose values get into an object undecoded.
func (s *Server) quantities(serializer runtime.NegotiatedSerializer) quantities.Patches {
	return quantities.Patches{Body: bodyOf, Refuse: refusal(serializer), TypeOf: func(info *request.RequestInfo) reflect.Type {
		k, ok := s.kinds[schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}]
		if !ok {
			return nil
		}
		gv := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
		return s.scheme.AllKnownTypes()[gv.WithKind(k.GVK.Kind)]
	}}
}
