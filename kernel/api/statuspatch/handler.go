package statuspatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	handlermetrics "k8s.io/apiserver/pkg/endpoints/handlers/metrics"
	requestmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	kindstorage "k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"pintle.dev/pintle/kernel/api/answers"
	"pintle.dev/pintle/kernel/api/storage"
)

// Options are what a Handler works with. All are required.
type Options struct {
	// Store is the registry of pods, with the strategy of their status.
	Store *genericregistry.Store
	// Scheme has the defaults of pods.
	Scheme     *runtime.Scheme
	Serializer runtime.NegotiatedSerializer
	// Types and Convertor are those of the machinery's handler.
	Types      managedfields.TypeConverter
	Convertor  runtime.ObjectConvertor
	Admit      admission.Interface
	Interfaces admission.ObjectInterfaces
	// Reviewed reports whether a webhook, a policy or a plugin may be asked about updates of
	// pods' statuses. Other plugins only read such a pod.
	Reviewed func() bool
	// Body reads a request's body, and leaves the request with all of it. One that is larger
	// than MaxBody bytes is the machinery's to refuse.
	Body    func(*http.Request) ([]byte, error)
	MaxBody int
	// Manager is the field manager of a client that names none, by its user agent.
	Manager func(userAgent string) string
}

// Handler serves what is ordinary.
type Handler struct {
	Options
	answers *answers.Writer
	direct  replacer
	fields  *fields
}

// replacer is the storage of pods.
type replacer interface {
	Replace(context.Context, string, *kindstorage.Preconditions, func(runtime.Object) (runtime.Object, error)) error
}

var (
	podKind     = corev1.SchemeGroupVersion.WithKind("Pod")
	podResource = corev1.SchemeGroupVersion.WithResource("pods")
	internal    = schema.GroupVersion{Group: corev1.GroupName, Version: runtime.APIVersionInternal}
)

// New makes a handler. It is an error where the registry has hooks around its updates, or a
// storage that copies and decodes what it writes over.
func New(o Options) (*Handler, error) {
	direct, ok := o.Store.Storage.Storage.(replacer)
	if s := o.Store; !ok || s.BeginUpdate != nil || s.AfterUpdate != nil || s.Decorator != nil || s.TTLFunc != nil || s.ShouldDeleteDuringUpdate != nil {
		return nil, fmt.Errorf("patches of pods' statuses: the registry of pods has a storage %T or hooks that are not known here", o.Store.Storage.Storage)
	}
	manager, err := managedfields.NewDefaultFieldManager(o.Types, o.Convertor, o.Scheme, o.Scheme, podKind,
		internal, "status", fieldpath.NewExcludeFilterSetMap(o.Store.GetResetFields()))
	if err != nil {
		return nil, fmt.Errorf("patches of pods' statuses: %w", err)
	}
	o.Admit = admission.WithAudit(o.Admit)
	return &Handler{Options: o, answers: answers.NewWriter(o.Serializer, podKind.GroupVersion()), direct: direct, fields: &fields{manager: manager}}, nil
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
	patch   *patch
	options metav1.UpdateOptions
	manager string
	accept  runtime.SerializerInfo
}

// ordinary reads a request. It is nil for one that is not served here, and the request is as
// it was.
func (h *Handler) ordinary(req *http.Request) *order {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok || info.Verb != "patch" || info.Resource != "pods" || info.Subresource != "status" || info.APIGroup != "" || info.APIVersion != version ||
		info.Namespace == "" || info.Name == "" || req.Header.Get("Content-Type") != string(types.StrategicMergePatchType) || h.Reviewed() {
		return nil
	}
	if ac := audit.AuditContextFrom(req.Context()); ac != nil && !ac.GetEventLevel().Less(auditinternal.LevelRequest) {
		return nil // the patch is recorded
	}
	o := &order{info: info}
	o.options.TypeMeta.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("UpdateOptions"))
	if req.URL.RawQuery != "" {
		for name, values := range req.URL.Query() {
			switch {
			case len(values) != 1:
				return nil
			case name == "fieldManager":
				o.options.FieldManager = values[0]
			case name == "fieldValidation":
				o.options.FieldValidation = values[0]
			default:
				return nil
			}
		}
		asked := &metav1.PatchOptions{FieldManager: o.options.FieldManager, FieldValidation: o.options.FieldValidation}
		if len(validation.ValidatePatchOptions(asked, types.StrategicMergePatchType)) > 0 {
			return nil
		}
	}
	if o.manager = o.options.FieldManager; o.manager == "" {
		o.manager = h.Manager(req.UserAgent())
	}
	if o.accept, ok = answers.Plain(req, h.Serializer); !ok {
		return nil
	}
	body, err := h.Body(req)
	if err != nil || len(body) > h.MaxBody {
		return nil
	}
	if o.patch, ok = read(body); !ok {
		return nil
	}
	return o
}

// requestLimit is how long a patch may take, as upstream's.
const requestLimit = 34 * time.Second

// errMachinery is of a patch that is the machinery's after all. Nothing has been written.
var errMachinery = errors.New("left to the machinery's handler")

// serve writes and answers. It is false where neither was done.
func (h *Handler) serve(w http.ResponseWriter, req *http.Request, o *order) bool {
	ctx, cancel := context.WithTimeout(request.WithNamespace(req.Context(), o.info.Namespace), requestLimit)
	defer cancel()
	var encoding storage.Encoding
	if o.accept.MediaType == runtime.ContentTypeProtobuf {
		ctx = storage.WithEncoding(ctx, &encoding)
	}
	written, err := h.write(ctx, o)
	if errors.Is(err, errMachinery) {
		return false
	}
	size := len(o.patch.body)
	requestmetrics.InstrumentHandlerFunc("PATCH", "", version, "pods", "status", "resource", requestmetrics.APIServerComponent, false, "",
		func(w http.ResponseWriter, req *http.Request) {
			handlermetrics.RecordRequestBodySize(ctx, podResource.GroupResource(), handlermetrics.Patch, size)
			if err != nil {
				h.answers.Fail(w, req, err)
				return
			}
			encoded, _ := encoding.Versioned(written.ResourceVersion)
			h.answers.Write(w, req, http.StatusOK, o.accept, encoded, written)
		})(w, req)
	return true
}

// write gives the pod as it was written. The error is errMachinery or one of the commit.
func (h *Handler) write(ctx context.Context, o *order) (written *corev1.Pod, err error) {
	key, err := h.Store.KeyFunc(ctx, o.info.Name)
	if err != nil {
		return nil, errMachinery
	}
	err = h.direct.Replace(ctx, key, nil, func(obj runtime.Object) (runtime.Object, error) {
		live, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, errMachinery
		}
		if written, err = h.patched(ctx, o, live); err != nil {
			return nil, errMachinery
		}
		return written, nil
	})
	switch {
	case err == nil:
		return written, nil
	case errors.Is(err, errMachinery), kindstorage.IsNotFound(err):
		return nil, errMachinery
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return nil, apierrors.NewTimeoutError(fmt.Sprintf("request did not complete within requested timeout - %s", ctx.Err()), 0)
	}
	return nil, storeerr.InterpretUpdateError(err, podResource.GroupResource(), o.info.Name)
}

// patched is a pod with the patch. It shares with live, which readers have and which stays as
// it is. An error says why the patch is the machinery's.
func (h *Handler) patched(ctx context.Context, o *order, live *corev1.Pod) (*corev1.Pod, error) {
	switch {
	case live.UID == "" || o.patch.uid != "" && o.patch.uid != live.UID:
		return nil, errors.New("the patch is for another pod")
	case len(live.OwnerReferences) > 1:
		return nil, errors.New("the pod's owners are to be told apart")
	case genericregistry.ShouldDeleteDuringUpdate(ctx, "", live, live):
		return nil, errors.New("the update is the pod's end")
	}
	status, err := o.patch.merge(&live.Status, h.Scheme.Default)
	if err != nil {
		return nil, err
	}
	next := *live
	next.Status = status
	h.fields.set(live, &next, o.manager)
	who, _ := request.UserFrom(ctx)
	attributes := admission.NewAttributesRecord(&next, live, podKind, o.info.Namespace, o.info.Name, podResource, "status", admission.Update, &o.options, false, who)
	if mutating, ok := h.Admit.(admission.MutationInterface); ok && mutating.Handles(admission.Update) {
		before := next.ManagedFields
		if err := mutating.Admit(ctx, attributes, h.Interfaces); err != nil {
			return nil, err
		}
		if after := next.ManagedFields; len(before) != len(after) || len(after) > 0 && &before[0] != &after[0] {
			return nil, errors.New("managed fields are to be checked")
		}
	}
	var said warnings
	if err := rest.BeforeUpdate(h.Store.UpdateStrategy, warning.WithWarningRecorder(ctx, &said), &next, live); err != nil {
		return nil, err
	}
	if said > 0 {
		return nil, errors.New("there are warnings")
	}
	// The machinery knows what of a patch that changes nothing is written.
	if equality.Semantic.DeepEqual(next.Status, live.Status) {
		return nil, errors.New("nothing changes")
	}
	if err := rest.AdmissionToValidateObjectUpdateFunc(h.Admit, attributes, h.Interfaces)(ctx, &next, live); err != nil {
		return nil, err
	}
	return &next, nil
}

// warnings counts them.
type warnings int

// AddWarning implements warning.Recorder.
func (w *warnings) AddWarning(string, string) { *w++ }
