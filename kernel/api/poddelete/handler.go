package poddelete

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	handlermetrics "k8s.io/apiserver/pkg/endpoints/handlers/metrics"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	requestmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	kindstorage "k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/apihelpers"
	"k8s.io/apiserver/pkg/warning"

	"pintle.dev/pintle/kernel/api/answers"
	"pintle.dev/pintle/kernel/api/storage"
)

// Options are what a Handler works with. All are required.
type Options struct {
	// Store is the registry of pods.
	Store      *genericregistry.Store
	Serializer runtime.NegotiatedSerializer
	Admit      admission.Interface
	Interfaces admission.ObjectInterfaces
	// Reviewed reports whether a webhook, a policy or a plugin may be asked about deletes of
	// pods. Others only read such a pod.
	Reviewed func() bool
	// Node is the node that a user is the agent of; false: it is none.
	Node func(user.Info) (string, bool)
	// Body reads a request's body, and leaves the request with all of it. One that is larger
	// than MaxBody bytes is the machinery's to refuse.
	Body    func(*http.Request) ([]byte, error)
	MaxBody int
}

// Handler serves what is ordinary.
type Handler struct {
	Options
	answers *answers.Writer
	direct  direct
	// codecs are those of options, and decoders theirs, which the machinery makes anew for each
	// request.
	codecs   runtime.NegotiatedSerializer
	decoders map[runtime.Serializer]runtime.Decoder
}

// direct is the storage of pods.
type direct interface {
	Replace(context.Context, string, *kindstorage.Preconditions, func(runtime.Object) (runtime.Object, error)) error
	Remove(context.Context, string, func(runtime.Object) (runtime.Object, error)) error
}

var (
	podKind     = corev1.SchemeGroupVersion.WithKind("Pod")
	podResource = corev1.SchemeGroupVersion.WithResource("pods")
	optionsKind = podKind.GroupVersion().WithKind("DeleteOptions")
)

// New makes a handler. It is an error where the registry has hooks around its deletes, or a
// storage that copies and decodes what it writes over.
func New(o Options) (*Handler, error) {
	d, ok := o.Store.Storage.Storage.(direct)
	if s := o.Store; !ok || s.AfterDelete != nil || s.BeginUpdate != nil || s.AfterUpdate != nil || s.Decorator != nil || s.TTLFunc != nil || !s.ReturnDeletedObject {
		return nil, fmt.Errorf("deletes of pods: the registry of pods has a storage %T or hooks that are not known here", o.Store.Storage.Storage)
	}
	o.Admit = admission.WithAudit(o.Admit)
	h := &Handler{
		Options: o, answers: answers.NewWriter(o.Serializer, podKind.GroupVersion()), direct: d,
		codecs: apihelpers.GetMetaInternalVersionCodecs(), decoders: map[runtime.Serializer]runtime.Decoder{},
	}
	for _, info := range h.codecs.SupportedMediaTypes() {
		h.decoders[info.Serializer] = h.codecs.DecoderToVersion(info.Serializer, optionsKind.GroupVersion())
	}
	return h, nil
}

// Before serves what it can, and hands the rest on.
func (h *Handler) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if o := h.ordinary(req); o == nil || !h.serve(w, req, o) {
			next.ServeHTTP(w, req)
		}
	})
}

// order is a request that was found ordinary.
type order struct {
	info    *request.RequestInfo
	options metav1.DeleteOptions
	accept  runtime.SerializerInfo
	size    int
}

// ordinary reads a request. It is nil for one that is not served here, and the request is as
// it was.
func (h *Handler) ordinary(req *http.Request) *order {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok || info.Verb != "delete" || info.Resource != "pods" || info.Subresource != "" || info.APIGroup != "" || info.APIVersion != podKind.Version ||
		info.Namespace == "" || info.Name == "" || req.URL.RawQuery != "" || h.Reviewed() {
		return nil
	}
	if ac := audit.AuditContextFrom(req.Context()); ac != nil && !ac.GetEventLevel().Less(auditinternal.LevelRequest) {
		return nil // the options are recorded
	}
	o := &order{info: info}
	if o.accept, ok = answers.Plain(req, h.Serializer); !ok {
		return nil
	}
	body, err := h.Body(req)
	if err != nil || len(body) > h.MaxBody {
		return nil
	}
	if o.size = len(body); o.size > 0 && !h.read(req, body, &o.options) {
		return nil
	}
	if !usual(&o.options) || len(validation.ValidateDeleteOptions(&o.options)) > 0 {
		return nil
	}
	o.options.TypeMeta.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("DeleteOptions"))
	return o
}

// read decodes options.
func (h *Handler) read(req *http.Request, body []byte, into *metav1.DeleteOptions) bool {
	input, err := negotiation.NegotiateInputSerializer(req, false, h.codecs)
	if err != nil || h.decoders[input.Serializer] == nil {
		return false
	}
	kind := optionsKind
	obj, _, err := h.decoders[input.Serializer].Decode(body, &kind, into)
	return err == nil && obj == runtime.Object(into)
}

// usual says whether there is nothing in options but what controllers and agents ask for.
func usual(o *metav1.DeleteOptions) bool {
	//nolint:staticcheck // OrphanDependents is deprecated, and clients of old send it.
	return o.OrphanDependents == nil && len(o.DryRun) == 0 && o.IgnoreStoreReadErrorWithClusterBreakingPotential == nil &&
		(o.PropagationPolicy == nil || *o.PropagationPolicy == metav1.DeletePropagationBackground) &&
		(o.GracePeriodSeconds == nil || *o.GracePeriodSeconds >= 0)
}

// requestLimit is how long a delete may take, as upstream's.
const requestLimit = 34 * time.Second

var (
	// errMachinery is of a delete that is the machinery's after all. Nothing has been written.
	errMachinery = errors.New("left to the machinery's handler")
	// errLast is of a delete after which nothing is left of the pod.
	errLast = errors.New("the pod's last delete")
)

// serve writes and answers. It is false where neither was done.
func (h *Handler) serve(w http.ResponseWriter, req *http.Request, o *order) bool {
	ctx, cancel := context.WithTimeout(request.WithNamespace(req.Context(), o.info.Namespace), requestLimit)
	defer cancel()
	var encoding storage.Encoding
	if o.accept.MediaType == runtime.ContentTypeProtobuf {
		ctx = storage.WithEncoding(ctx, &encoding)
	}
	pod, err := h.write(ctx, o)
	if errors.Is(err, errMachinery) {
		return false
	}
	requestmetrics.InstrumentHandlerFunc(http.MethodDelete, "", podKind.Version, "pods", "", "resource", requestmetrics.APIServerComponent, false, "",
		func(w http.ResponseWriter, req *http.Request) {
			handlermetrics.RecordRequestBodySize(ctx, podResource.GroupResource(), handlermetrics.Delete, o.size)
			if err != nil {
				h.answers.Fail(w, req, err)
				return
			}
			encoded, _ := encoding.Versioned(pod.ResourceVersion)
			h.answers.Write(w, req, http.StatusOK, o.accept, encoded, pod)
		})(w, req)
	return true
}

// write gives the pod as it was marked, or as it was at last. The error is errMachinery or one
// of the commit.
func (h *Handler) write(ctx context.Context, o *order) (pod *corev1.Pod, err error) {
	key, err := h.Store.KeyFunc(ctx, o.info.Name)
	if err != nil {
		return nil, errMachinery
	}
	// step is what one of the two writes makes of the stored pod.
	step := func(last bool) func(runtime.Object) (runtime.Object, error) {
		return func(obj runtime.Object) (runtime.Object, error) {
			live, ok := obj.(*corev1.Pod)
			if !ok {
				return nil, errMachinery
			}
			next, ends, err := h.next(ctx, o, live)
			switch {
			case err != nil:
				return nil, errMachinery
			case last && !ends:
				return nil, errMachinery // the pod changed in between
			case ends && !last:
				return nil, errLast
			}
			pod = next
			return next, nil
		}
	}
	err = h.direct.Replace(ctx, key, nil, step(false))
	if errors.Is(err, errLast) {
		err = h.direct.Remove(ctx, key, step(true))
	}
	switch {
	case err == nil:
		return pod, nil
	case errors.Is(err, errMachinery), kindstorage.IsNotFound(err):
		return nil, errMachinery
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return nil, apierrors.NewTimeoutError(fmt.Sprintf("request did not complete within requested timeout - %s", ctx.Err()), 0)
	}
	return nil, storeerr.InterpretDeleteError(err, podResource.GroupResource(), o.info.Name)
}

// next is a pod as the delete leaves it, and whether that is its end. It shares with live, which
// readers have and which stays as it is. An error says why the delete is the machinery's.
func (h *Handler) next(ctx context.Context, o *order, live *corev1.Pod) (next *corev1.Pod, ends bool, err error) {
	if slices.ContainsFunc(live.Finalizers, ofCollector) {
		return nil, false, errors.New("the options decide about finalizers")
	}
	marked, options := *live, o.options
	graceful, pending, err := rest.BeforeDelete(h.Store.DeleteStrategy, ctx, &marked, &options)
	switch {
	case err != nil:
		return nil, false, err
	case !graceful || pending || marked.DeletionTimestamp == nil || options.GracePeriodSeconds == nil:
		return nil, false, errors.New("the pod is to be deleted at once, or nothing changes")
	}
	who, _ := request.UserFrom(ctx)
	if *options.GracePeriodSeconds == 0 {
		// Who else deletes at once wants the node to hear of it before the pod is gone.
		node, ok := h.Node(who)
		if !ok || node == "" || node != live.Spec.NodeName || live.DeletionTimestamp == nil || len(live.Finalizers) > 0 {
			return nil, false, errors.New("something of the pod may be left")
		}
		ends = true
	}
	// As it is stored: without parts of seconds.
	at := metav1.Unix(marked.DeletionTimestamp.Unix(), 0)
	marked.DeletionTimestamp = &at
	var said warnings
	if err := h.admitted(warning.WithWarningRecorder(ctx, &said), o, live, who); err != nil {
		return nil, false, err
	}
	if said > 0 {
		return nil, false, errors.New("there are warnings")
	}
	return &marked, ends, nil
}

// admitted asks admission, as the machinery does of a delete.
func (h *Handler) admitted(ctx context.Context, o *order, live *corev1.Pod, who user.Info) error {
	attributes := admission.NewAttributesRecord(nil, live, podKind, o.info.Namespace, o.info.Name, podResource, "", admission.Delete, &o.options, false, who)
	if mutating, ok := h.Admit.(admission.MutationInterface); ok && mutating.Handles(admission.Delete) {
		if err := mutating.Admit(ctx, attributes, h.Interfaces); err != nil {
			return err
		}
	}
	if validating, ok := h.Admit.(admission.ValidationInterface); ok && validating.Handles(admission.Delete) {
		return validating.Validate(ctx, attributes, h.Interfaces)
	}
	return nil
}

// ofCollector says whether the garbage collector waits with a finalizer.
func ofCollector(finalizer string) bool {
	return finalizer == metav1.FinalizerOrphanDependents || finalizer == metav1.FinalizerDeleteDependents
}

// warnings counts them.
type warnings int

// AddWarning implements warning.Recorder.
func (w *warnings) AddWarning(string, string) { *w++ }
