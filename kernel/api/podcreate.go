package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"
	handlermetrics "k8s.io/apiserver/pkg/endpoints/handlers/metrics"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	requestmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	kindstorage "k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/warning"

	"pintle.dev/pintle/kernel/api/answers"
	"pintle.dev/pintle/kernel/api/limits"
	"pintle.dev/pintle/kernel/api/storage"
)

// podCreates serves ordinary creates of pods: what the machinery's handler does
// for them, without what it does for others. It stays on one goroutine, knows
// the managed fields of pods that differ in their names alone
// (knownFields), and does not decode managed fields that admission left alone.
// What is not ordinary it leaves to that handler, before anything has happened.
type podCreates struct {
	store      *genericregistry.Store
	serializer runtime.NegotiatedSerializer
	answers    *answers.Writer
	admit      admission.Interface
	// asked reports whether a webhook or a policy may be asked about creates of pods.
	asked      func() bool
	interfaces admission.ObjectInterfaces
	fields     *knownFields
	valid      *vettedPods
	// decoders are those of the serializers that are negotiated, which the machinery
	// makes anew for each request.
	decoders map[runtime.Serializer]runtime.Decoder
}

var (
	podKind     = corev1.SchemeGroupVersion.WithKind("Pod")
	podResource = corev1.SchemeGroupVersion.WithResource("pods")
)

func newPodCreates(store *genericregistry.Store, i installer, types managedfields.TypeConverter) (*podCreates, error) {
	manager, err := managedfields.NewDefaultFieldManager(types, shallowConvertor{i.scheme}, i.scheme, i.scheme, podKind,
		internalCore, "", resetFilter(store))
	if err != nil {
		return nil, fmt.Errorf("creates of pods: %w", err)
	}
	c := &podCreates{
		store: store, serializer: i.serializer, answers: answers.NewWriter(i.serializer, podKind.GroupVersion()), admit: admission.WithAudit(i.admit), asked: i.podsAsked,
		interfaces: objectInterfaces{i.scheme, i.server.EquivalentResourceRegistry}, fields: &knownFields{manager: manager}, valid: &vettedPods{},
		decoders: map[runtime.Serializer]runtime.Decoder{},
	}
	for _, info := range i.serializer.SupportedMediaTypes() {
		for _, s := range []runtime.Serializer{info.Serializer, info.StrictSerializer} {
			c.decoders[s] = i.serializer.DecoderToVersion(s, internalCore)
		}
	}
	return c, nil
}

// internalCore is the version that pods are converted to, which is theirs.
var internalCore = schema.GroupVersion{Group: corev1.GroupName, Version: runtime.APIVersionInternal}

// objectInterfaces are what admission may ask about objects.
type objectInterfaces struct {
	*runtime.Scheme
	equivalents runtime.EquivalentResourceMapper
}

func (o objectInterfaces) GetObjectCreater() runtime.ObjectCreater     { return o.Scheme }
func (o objectInterfaces) GetObjectTyper() runtime.ObjectTyper         { return o.Scheme }
func (o objectInterfaces) GetObjectDefaulter() runtime.ObjectDefaulter { return o.Scheme }
func (o objectInterfaces) GetObjectConvertor() runtime.ObjectConvertor {
	return shallowConvertor{o.Scheme}
}
func (o objectInterfaces) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	return o.equivalents
}

// podOrder is a request that was found ordinary.
type podOrder struct {
	pod     *corev1.Pod
	options metav1.CreateOptions
	accept  runtime.SerializerInfo
	size    int
	// protobuf: the pod has no map or list that is empty and not nil.
	protobuf bool
	// stored is what a create has written, for who accepts that.
	stored storage.Encoding
}

// before serves what it can, and hands the rest on.
func (c *podCreates) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		order := c.ordinary(req)
		if order == nil {
			next.ServeHTTP(w, req)
			return
		}
		requestmetrics.InstrumentHandlerFunc(request.MethodPost, "", "v1", "pods", "", "resource", requestmetrics.APIServerComponent, false, "",
			func(w http.ResponseWriter, req *http.Request) { c.create(w, req, order) })(w, req)
	})
}

// ordinary reads a request; nil: it is none of the kind that is served here, or
// has a fault, and its body is as it was.
func (c *podCreates) ordinary(req *http.Request) *podOrder {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok || info.Verb != "create" || info.Resource != "pods" || info.Subresource != "" || info.APIGroup != "" || info.Namespace == "" || info.Name != "" || c.asked() {
		return nil
	}
	if ac := audit.AuditContextFrom(req.Context()); ac != nil && !ac.GetEventLevel().Less(auditinternal.LevelRequest) {
		return nil
	}
	order := &podOrder{}
	order.options.TypeMeta.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("CreateOptions"))
	if req.URL.RawQuery != "" {
		for name, values := range req.URL.Query() {
			switch {
			case len(values) != 1:
				return nil
			case name == "fieldManager":
				order.options.FieldManager = values[0]
			case name == "fieldValidation":
				order.options.FieldValidation = values[0]
			default:
				return nil
			}
		}
		if len(validation.ValidateCreateOptions(&order.options)) > 0 {
			return nil
		}
	}
	if order.accept, ok = answers.Plain(req, c.serializer); !ok {
		return nil
	}
	input, err := negotiation.NegotiateInputSerializer(req, false, c.serializer)
	if err != nil {
		return nil
	}
	body, err := bodyOf(req)
	if err != nil || len(body) > maxBody {
		return nil
	}
	serializer := input.StrictSerializer
	if order.options.FieldValidation == metav1.FieldValidationIgnore {
		serializer = input.Serializer
	}
	decoder := c.decoders[serializer]
	if decoder == nil {
		return nil
	}
	kind := podKind
	obj, gvk, err := decoder.Decode(body, &kind, &corev1.Pod{})
	if err != nil || gvk == nil || *gvk != podKind {
		return nil
	}
	if order.pod, ok = obj.(*corev1.Pod); !ok || len(order.pod.OwnerReferences) > 1 {
		return nil
	}
	m := &order.pod.ObjectMeta
	if m.Namespace != "" && m.Namespace != info.Namespace || len(m.ManagedFields) > 0 {
		return nil
	}
	order.size, order.protobuf = len(body), input.MediaType == runtime.ContentTypeProtobuf
	return order
}

// bodyOf gives a request's body up to what it may have, and leaves the request with
// all of it: what was read already, or what is read here, at once where the client
// says how much there is.
func bodyOf(req *http.Request) ([]byte, error) {
	if b, ok := req.Body.(*limits.Body); ok {
		if all, whole := b.Bytes(); whole {
			return all, nil
		}
	}
	body, err := readBody(req)
	left := req.Body
	req.Body = readCloser{io.MultiReader(bytes.NewReader(body), left), left}
	return body, err
}

func readBody(req *http.Request) ([]byte, error) {
	if n := req.ContentLength; n > 0 && n <= largestShort {
		body := make([]byte, n)
		read, err := io.ReadFull(req.Body, body)
		return body[:read], err
	}
	return io.ReadAll(io.LimitReader(req.Body, maxBody+1))
}

type readCloser struct {
	io.Reader
	io.Closer
}

// requestLimit is how long a create may take, as upstream's.
const requestLimit = 34 * time.Second

func (c *podCreates) create(w http.ResponseWriter, req *http.Request, order *podOrder) {
	ctx, cancel := context.WithTimeout(req.Context(), requestLimit)
	defer cancel()
	req.Body.Close()
	handlermetrics.RecordRequestBodySize(ctx, podResource.GroupResource(), handlermetrics.Create, order.size)
	out, err := c.admitted(ctx, req, order)
	if err != nil {
		c.answers.Fail(w, req, err)
		return
	}
	var encoded []byte
	if pod, ok := out.(*corev1.Pod); ok {
		encoded, _ = order.stored.Versioned(pod.ResourceVersion)
	}
	c.answers.Write(w, req, http.StatusCreated, order.accept, encoded, out)
}

// admitted does what lies between a request and the registry.
func (c *podCreates) admitted(ctx context.Context, req *http.Request, order *podOrder) (runtime.Object, error) {
	info, _ := request.RequestInfoFrom(ctx)
	pod, options := order.pod, &order.options
	ctx = storage.WithSharedResult(request.WithNamespace(ctx, info.Namespace))
	if order.protobuf {
		ctx = storage.WithGivenObject(ctx, asStored)
	}
	if order.accept.MediaType == runtime.ContentTypeProtobuf {
		ctx = storage.WithEncoding(ctx, &order.stored)
	}
	who, _ := request.UserFrom(ctx)
	rest.WipeObjectMetaSystemFields(pod)
	if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(info.Namespace, pod); err != nil {
		return nil, err
	}
	attributes := admission.NewAttributesRecord(pod, nil, podKind, info.Namespace, pod.Name, podResource, "", admission.Create, options, false, who)
	manager := options.FieldManager
	if manager == "" {
		manager = managerOf(req.UserAgent())
	}
	c.fields.set(pod, manager)
	if mutating, ok := c.admit.(admission.MutationInterface); ok && mutating.Handles(admission.Create) {
		before := pod.ManagedFields
		if err := mutating.Admit(ctx, attributes, c.interfaces); err != nil {
			return nil, err
		}
		if err := unbroken(before, pod.ManagedFields); err != nil {
			pod.ManagedFields = before
			warning.AddWarning(ctx, "", fmt.Sprintf(fieldmanager.InvalidManagedFieldsAfterMutatingAdmissionWarningFormat, err.Error()))
		}
	}
	result, err := c.write(ctx, order, rest.AdmissionToValidateObjectFunc(c.admit, attributes, c.interfaces))
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil, apierrors.NewTimeoutError(fmt.Sprintf("request did not complete within requested timeout - %s", ctx.Err()), 0)
	}
	return result, err
}

// write is the registry's Create of a pod. What a pod with a name needs is done
// here, without the copy of it that the registry makes for who validates it: they
// only read.
func (c *podCreates) write(ctx context.Context, order *podOrder, validate rest.ValidateObjectFunc) (runtime.Object, error) {
	store, pod := c.store, order.pod
	if pod.Name == "" || pod.GenerateName != "" || store.BeginCreate != nil || store.AfterCreate != nil || store.Decorator != nil || store.TTLFunc != nil {
		return store.Create(ctx, pod, validate, &order.options)
	}
	rest.FillObjectMetaSystemFields(pod)
	before := func() error { return rest.BeforeCreate(store.CreateStrategy, ctx, pod) }
	if order.protobuf {
		before = func() error { return c.valid.beforeCreate(ctx, store.CreateStrategy, pod) }
	}
	if err := before(); err != nil {
		return nil, err
	}
	if err := validate(ctx, pod); err != nil {
		return nil, err
	}
	key, err := store.KeyFunc(ctx, pod.Name)
	if err != nil {
		return nil, err
	}
	out := &corev1.Pod{}
	err = store.Storage.Create(ctx, key, pod, out, 0, false)
	if err == nil {
		return out, nil
	}
	err = storeerr.InterpretCreateError(err, podResource.GroupResource(), pod.Name)
	var status *apierrors.StatusError
	if !apierrors.IsAlreadyExists(err) || !errors.As(err, &status) || store.Storage.Get(ctx, key, kindstorage.GetOptions{}, out) != nil {
		return nil, err
	}
	if out.DeletionTimestamp != nil {
		status.ErrStatus.Message = "object is being deleted: " + status.ErrStatus.Message
	}
	return nil, err
}

// asStored takes from a new pod, or from one that a delete marks, what is not stored: its
// kind, and parts of seconds.
func asStored(obj runtime.Object) {
	pod := obj.(*corev1.Pod)
	pod.TypeMeta = metav1.TypeMeta{}
	stored := func(t *metav1.Time) {
		if !t.IsZero() {
			*t = metav1.Unix(t.Unix(), 0)
		}
	}
	stored(&pod.CreationTimestamp)
	if pod.DeletionTimestamp != nil {
		stored(pod.DeletionTimestamp)
	}
	for i := range pod.ManagedFields {
		if t := pod.ManagedFields[i].Time; t != nil {
			stored(t)
		}
	}
	for i := range pod.Status.Conditions {
		stored(&pod.Status.Conditions[i].LastProbeTime)
		stored(&pod.Status.Conditions[i].LastTransitionTime)
	}
}

// unbroken says whether managed fields can be read, of those that are not the ones
// that the server itself wrote.
func unbroken(before, after []metav1.ManagedFieldsEntry) error {
	if len(before) == len(after) && (len(after) == 0 || &before[0] == &after[0]) {
		return nil
	}
	return managedfields.ValidateManagedFields(after)
}

// managerOf is the name that a client without a field manager writes under: what
// stands before the slash of its user agent, as far as it can be printed.
func managerOf(agent string) string {
	agent, _, _ = strings.Cut(agent, "/")
	return printable(agent, validation.FieldManagerMaxLength)
}
