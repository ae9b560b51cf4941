package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"

	"pintle.dev/pintle/kernel/api/patchbounds"
	"pintle.dev/pintle/kernel/reasons"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

const (
	// maxWarnings bounds the warnings of one plugin in an answer, as upstream for a webhook.
	maxWarnings = 10
	// maxWait is how long a request waits for plugins that are starting; retryAfter
	// is what a client is told to wait, in seconds, that asked too early.
	maxWait, retryAfter = 5 * time.Second, 1
)

// Unavailable is an error of a plugin that is in use and does not run: the
// request could be made later.
type Unavailable interface {
	error
	Unavailable() bool
}

// Plugin is one admission plugin.
type Plugin interface {
	Name() string
	Mutates() bool
	// IgnoresFailure: a request goes on where the plugin cannot answer.
	IgnoresFailure() bool
	Matches(operation, group, version, resource, subresource string) bool
	// Review takes an AdmissionRequest and returns an AdmissionResponse of
	// admission.k8s.io/v1, as JSON.
	Review(ctx context.Context, request []byte) ([]byte, error)
}

// Source has the plugins of the kernel.
type Source interface {
	// Reviews lists the plugins in the order in which they are asked; not ok: they
	// are not known yet, and there may be some.
	Reviews() (plugins []Plugin, ok bool)
	// Reviewing is closed when they are known.
	Reviewing() <-chan struct{}
}

// none is the source where there are no plugins.
type none struct{}

func (none) Reviews() ([]Plugin, bool)  { return nil, true }
func (none) Reviewing() <-chan struct{} { return nil }

// Own reports whether a request is the kernel's own, which is not reviewed.
type Own func(ctx context.Context, u user.Info) bool

// Reviewer implements admission.MutationInterface and ValidationInterface.
type Reviewer struct {
	source Source
	own    Own
}

var (
	_ admission.MutationInterface   = (*Reviewer)(nil)
	_ admission.ValidationInterface = (*Reviewer)(nil)
)

// New returns a reviewer over the plugins of a source, which is asked a request.
// A nil source has none; a nil own knows no request of the kernel's.
func New(source Source, own Own) *Reviewer {
	if source == nil {
		source = none{}
	}
	if own == nil {
		own = func(context.Context, user.Info) bool { return false }
	}
	return &Reviewer{source: source, own: own}
}

// Handles implements admission.Interface.
func (r *Reviewer) Handles(admission.Operation) bool { return true }

// Admit asks the plugins that may change the object, each once: what a webhook made of
// it since is for those that may not.
func (r *Reviewer) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if a.GetReinvocationContext().IsReinvoke() {
		return nil
	}
	return r.review(ctx, a, o, true)
}

// Validate asks the plugins that may not.
func (r *Reviewer) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return r.review(ctx, a, o, false)
}

// Reviews reports whether any plugin is asked about such requests, or may be: they are not known yet.
func (r *Reviewer) Reviews(a admission.Attributes) bool {
	plugins, ok := r.source.Reviews()
	return !ok || slices.ContainsFunc(plugins, func(p Plugin) bool { return matches(p, a) })
}

func matches(p Plugin, a admission.Attributes) bool {
	resource := a.GetResource()
	return p.Matches(string(a.GetOperation()), resource.Group, resource.Version, resource.Resource, a.GetSubresource())
}

func (r *Reviewer) review(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces, mutating bool) error {
	if a.GetResource().Group == v1alpha1.GroupName || r.own(ctx, a.GetUserInfo()) {
		return nil
	}
	plugins, err := r.known(ctx)
	if err != nil {
		return err
	}
	var request []byte
	for _, p := range plugins {
		if p.Mutates() != mutating || !matches(p, a) {
			continue
		}
		if request == nil {
			if request, err = encode(a, o); err != nil {
				return apierrors.NewInternalError(fmt.Errorf("admission plugin %q: encode the request: %w", p.Name(), err))
			}
		}
		changed, err := ask(ctx, p, request, a, o)
		if err != nil {
			return err
		}
		if changed {
			request = nil
		}
	}
	return nil
}

// known are the plugins, as soon as they are known. Who asks before waits a
// moment, and is refused then: a request that nobody reviewed is not carried out.
func (r *Reviewer) known(ctx context.Context) ([]Plugin, error) {
	plugins, ok := r.source.Reviews()
	if ok {
		return plugins, nil
	}
	wait, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	select {
	case <-r.source.Reviewing():
		if plugins, ok = r.source.Reviews(); ok {
			return plugins, nil
		}
	case <-wait.Done():
	}
	refused := apierrors.NewServiceUnavailable("admission plugins are starting, and have to review this request; try again")
	refused.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
	return nil, refused
}

// ask asks one plugin and does what it answers.
func ask(ctx context.Context, p Plugin, request []byte, a admission.Attributes, o admission.ObjectInterfaces) (changed bool, err error) {
	data, err := p.Review(ctx, request)
	response := &admissionv1.AdmissionResponse{}
	if err == nil {
		if err = json.Unmarshal(data, response); err != nil {
			err = fmt.Errorf("its answer: %w", err)
		}
	}
	if err == nil && response.Allowed && len(response.Patch) > 0 && !p.Mutates() {
		err = errors.New("it may refuse and not change, and sent a patch")
	}
	if err == nil && response.Allowed && len(response.Patch) > 0 {
		changed, err = apply(response.Patch, a, o)
	}
	if err != nil {
		if p.IgnoresFailure() {
			return false, nil
		}
		err = fmt.Errorf("failed calling admission plugin %q: %w", p.Name(), err)
		if gone := Unavailable(nil); errors.As(err, &gone) && gone.Unavailable() {
			return false, apierrors.NewServiceUnavailable(err.Error())
		}
		return false, apierrors.NewInternalError(err)
	}
	for i, text := range response.Warnings {
		if i == maxWarnings {
			break
		}
		if text = reasons.Text(text); text != "" {
			warning.AddWarning(ctx, "", text)
		}
	}
	if !response.Allowed {
		return false, refusal(p.Name(), response.Result)
	}
	return changed, nil
}

// refusal has the words of a webhook's.
func refusal(name string, result *metav1.Status) error {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}
	words := fmt.Sprintf("admission plugin %q denied the request", name)
	if result == nil {
		words += " without explanation"
	} else {
		if result.Code >= 400 && result.Code < 600 {
			status.Code, status.Reason = result.Code, result.Reason
		}
		status.Reason, status.Details = metav1.StatusReason(reasons.Text(string(status.Reason))), cleaned(result.Details)
		switch said, reason := message(result.Message), reasons.Text(string(result.Reason)); {
		case said != "":
			words += ": " + said
		case reason != "":
			words += ": " + reason
		default:
			words += " without explanation"
		}
	}
	status.Message = words
	return &apierrors.StatusError{ErrStatus: status}
}

// maxLines is how many lines of a message a client gets.
const maxLines = 64

// message is a text of several lines in words that users may be shown.
func message(said string) string {
	lines := strings.SplitN(said, "\n", maxLines+1)
	for i := range lines {
		lines[i] = reasons.Text(lines[i])
	}
	return strings.TrimSpace(strings.Join(lines[:min(len(lines), maxLines)], "\n"))
}

// cleaned are details in words that users may be shown.
func cleaned(details *metav1.StatusDetails) *metav1.StatusDetails {
	if details == nil {
		return nil
	}
	out := details.DeepCopy()
	for _, s := range []*string{&out.Name, &out.Group, &out.Kind} {
		*s = reasons.Text(*s)
	}
	out.UID = types.UID(reasons.Text(string(out.UID)))
	for i := range out.Causes {
		c := &out.Causes[i]
		c.Type, c.Message, c.Field = metav1.CauseType(reasons.Text(string(c.Type))), reasons.Text(c.Message), reasons.Text(c.Field)
	}
	return out
}

// encode writes the request as webhooks get it.
func encode(a admission.Attributes, o admission.ObjectInterfaces) ([]byte, error) {
	kind, resource := a.GetKind(), a.GetResource()
	dryRun := a.IsDryRun()
	request := admissionv1.AdmissionRequest{
		UID:         uuid.NewUUID(),
		Kind:        metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
		Resource:    metav1.GroupVersionResource{Group: resource.Group, Version: resource.Version, Resource: resource.Resource},
		SubResource: a.GetSubresource(), Name: a.GetName(), Namespace: a.GetNamespace(),
		Operation: admissionv1.Operation(a.GetOperation()), DryRun: &dryRun,
	}
	request.RequestKind, request.RequestResource, request.RequestSubResource = &request.Kind, &request.Resource, request.SubResource
	if u := a.GetUserInfo(); u != nil {
		request.UserInfo = authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
		for key, values := range u.GetExtra() {
			if request.UserInfo.Extra == nil {
				request.UserInfo.Extra = map[string]authenticationv1.ExtraValue{}
			}
			request.UserInfo.Extra[key] = values
		}
	}
	var err error
	if request.Object.Raw, err = encodeObject(a.GetObject(), a, o); err != nil {
		return nil, err
	}
	if request.OldObject.Raw, err = encodeObject(a.GetOldObject(), a, o); err != nil {
		return nil, err
	}
	if options := a.GetOperationOptions(); options != nil {
		if request.Options.Raw, err = json.Marshal(options); err != nil {
			return nil, err
		}
	}
	return json.Marshal(request)
}

// encodeObject writes an object as the request's kind has it, and with that kind, which objects in memory lack.
func encodeObject(object runtime.Object, a admission.Attributes, o admission.ObjectInterfaces) ([]byte, error) {
	if object == nil {
		return nil, nil
	}
	// The old object belongs to a cache.
	object, err := versioned(object.DeepCopyObject(), a, o)
	if err != nil {
		return nil, err
	}
	if object.GetObjectKind().GroupVersionKind().Empty() {
		object.GetObjectKind().SetGroupVersionKind(a.GetKind())
	}
	return json.Marshal(object)
}

// versioned gives an object as the request's kind has it, which in memory may be of another version, or group, as
// events are. What is of no known kind stays as it is.
func versioned(object runtime.Object, a admission.Attributes, o admission.ObjectInterfaces) (runtime.Object, error) {
	if _, ok := object.(*unstructured.Unstructured); ok {
		return object, nil
	}
	fresh, err := o.GetObjectCreater().New(a.GetKind())
	if err != nil || reflect.TypeOf(fresh) == reflect.TypeOf(object) {
		return object, nil //nolint:nilerr // there is nothing to convert it to
	}
	if err := o.GetObjectConvertor().Convert(object, fresh, nil); err != nil {
		return nil, fmt.Errorf("the object of the request as %s: %w", a.GetKind(), err)
	}
	return fresh, nil
}

// apply changes the object of the request as a JSON patch says.
func apply(data []byte, a admission.Attributes, o admission.ObjectInterfaces) (changed bool, err error) {
	object := a.GetObject()
	if object == nil {
		return false, errors.New("it sent a patch, and the request has no object")
	}
	if err := patchbounds.Check(types.JSONPatchType, data); err != nil {
		return false, fmt.Errorf("its patch: %w", err)
	}
	patch, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return false, fmt.Errorf("its patch: %w", err)
	}
	before, err := encodeObject(object, a, o)
	if err != nil {
		return false, err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return false, fmt.Errorf("its patch: %w", err)
	}
	if bytes.Equal(before, after) {
		return false, nil
	}
	if u, ok := object.(*unstructured.Unstructured); ok {
		fresh := &unstructured.Unstructured{}
		if err := fresh.UnmarshalJSON(after); err != nil {
			return false, fmt.Errorf("the patched object: %w", err)
		}
		u.Object = fresh.Object
		return true, nil
	}
	fresh, err := o.GetObjectCreater().New(a.GetKind())
	if err != nil {
		return false, err
	}
	d := json.NewDecoder(bytes.NewReader(after))
	d.DisallowUnknownFields()
	if err := d.Decode(fresh); err != nil {
		return false, fmt.Errorf("the patched object: %w", err)
	}
	o.GetObjectDefaulter().Default(fresh)
	if reflect.TypeOf(fresh) != reflect.TypeOf(object) {
		back, ok := reflect.New(reflect.TypeOf(object).Elem()).Interface().(runtime.Object)
		if !ok {
			return false, fmt.Errorf("the patched object is a %T, want %T", fresh, object)
		}
		if err := o.GetObjectConvertor().Convert(fresh, back, nil); err != nil {
			return false, fmt.Errorf("the patched object as it is stored: %w", err)
		}
		fresh = back
	}
	reflect.ValueOf(object).Elem().Set(reflect.ValueOf(fresh).Elem())
	return true, nil
}
