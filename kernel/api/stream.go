package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericrest "k8s.io/apiserver/pkg/registry/generic/rest"
	"k8s.io/apiserver/pkg/registry/rest"
	translator "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// pods reads a pod of the request's namespace.
type podGetter func(ctx context.Context, name string) (*corev1.Pod, error)

// containerOf is the container meant, which is the only one if none is named.
func containerOf(name string, pod *corev1.Pod) (string, error) {
	var names []string
	for _, c := range pod.Spec.InitContainers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		names = append(names, c.Name)
	}
	if name != "" {
		for _, n := range names {
			if n == name {
				return name, nil
			}
		}
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
	}
	switch len(pod.Spec.Containers) {
	case 1:
		return pod.Spec.Containers[0].Name, nil
	case 0:
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s", pod.Name))
	default:
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %s", pod.Name, names))
	}
}

// podLogREST is pods/log: the agent's answer, streamed.
type podLogREST struct {
	pod      podGetter
	kubelets *kubelets
}

var (
	_ rest.GetterWithOptions = (*podLogREST)(nil)
	_ rest.StorageMetadata   = (*podLogREST)(nil)
)

func (r *podLogREST) New() runtime.Object               { return &corev1.Pod{} }
func (r *podLogREST) Destroy()                          {}
func (r *podLogREST) ProducesMIMETypes(string) []string { return []string{"text/plain"} }
func (r *podLogREST) ProducesObject(string) any         { return "" }
func (r *podLogREST) OverrideMetricsVerb(string) string { return "CONNECT" }
func (r *podLogREST) NewGetOptions() (runtime.Object, bool, string) {
	return &corev1.PodLogOptions{}, false, ""
}

func (r *podLogREST) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	o, ok := options.(*corev1.PodLogOptions)
	if !ok {
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	if o.Stream == nil {
		all := corev1.LogStreamAll
		o.Stream = &all
	}
	if errs := validateLogOptions(o); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "PodLogOptions"}, name, errs)
	}
	pod, err := r.pod(ctx, name)
	if err != nil {
		return nil, err
	}
	container, err := containerOf(o.Container, pod)
	if err != nil {
		return nil, err
	}
	out := &genericrest.LocationStreamer{
		ContentType:     "text/plain",
		Flush:           o.Follow,
		ResponseChecker: genericrest.NewGenericHttpResponseChecker(corev1.Resource("pods/log"), name),
		RedirectChecker: genericrest.PreventRedirects,
	}
	if pod.Spec.NodeName == "" {
		// Nothing to read from yet: an empty log.
		return logStreamer{out}, nil
	}
	host, port, err := r.kubelets.address(ctx, pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	out.Location = &url.URL{
		Scheme: "https", Host: net.JoinHostPort(host, port),
		Path:     fmt.Sprintf("/containerLogs/%s/%s/%s", pod.Namespace, pod.Name, container),
		RawQuery: logQuery(o).Encode(),
	}
	out.Transport = r.kubelets.verified
	if o.InsecureSkipTLSVerifyBackend {
		out.Transport = r.kubelets.unverified
	}
	return logStreamer{out}, nil
}

// logStreamer streams a log so that no reader loses its last piece.
type logStreamer struct{ *genericrest.LocationStreamer }

func (s logStreamer) InputStream(ctx context.Context, version, accept string) (io.ReadCloser, bool, string, error) {
	body, flush, contentType, err := s.LocationStreamer.InputStream(ctx, version, accept)
	if body != nil {
		body = &endLast{ReadCloser: body}
	}
	return body, flush, contentType, err
}

// endLast tells the end of a stream by itself, never together with data: the
// WebSocket of k8s.io/streaming drops what it reads together with io.EOF.
type endLast struct {
	io.ReadCloser
	end error
}

func (r *endLast) Read(p []byte) (int, error) {
	if r.end != nil {
		return 0, r.end
	}
	n, err := r.ReadCloser.Read(p)
	if n > 0 && err != nil {
		r.end, err = err, nil
	}
	return n, err
}

func logQuery(o *corev1.PodLogOptions) url.Values {
	q := url.Values{}
	for name, on := range map[string]bool{"follow": o.Follow, "previous": o.Previous, "timestamps": o.Timestamps} {
		if on {
			q.Set(name, "true")
		}
	}
	for name, n := range map[string]*int64{"sinceSeconds": o.SinceSeconds, "tailLines": o.TailLines, "limitBytes": o.LimitBytes} {
		if n != nil {
			q.Set(name, strconv.FormatInt(*n, 10))
		}
	}
	if o.SinceTime != nil {
		q.Set("sinceTime", o.SinceTime.Format(time.RFC3339))
	}
	if o.Stream != nil {
		q.Set("stream", *o.Stream)
	}
	return q
}

func validateLogOptions(o *corev1.PodLogOptions) field.ErrorList {
	var errs field.ErrorList
	if o.TailLines != nil && *o.TailLines < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *o.TailLines, "must be greater than or equal to 0"))
	}
	if o.LimitBytes != nil && *o.LimitBytes < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *o.LimitBytes, "must be greater than 0"))
	}
	switch {
	case o.SinceSeconds != nil && o.SinceTime != nil:
		errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case o.SinceSeconds != nil && *o.SinceSeconds < 1:
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *o.SinceSeconds, "must be greater than 0"))
	}
	switch *o.Stream {
	case corev1.LogStreamAll:
	case corev1.LogStreamStdout, corev1.LogStreamStderr:
		if o.TailLines != nil {
			errs = append(errs, field.Forbidden(field.NewPath(""), "`tailLines` and specific `stream` are mutually exclusive for now"))
		}
	default:
		errs = append(errs, field.NotSupported(field.NewPath("stream"), *o.Stream,
			[]string{corev1.LogStreamAll, corev1.LogStreamStderr, corev1.LogStreamStdout}))
	}
	return errs
}

// podStreamREST is pods/exec, attach or portforward: an upgraded connection
// handed through to the agent. WebSocket clients are translated to the SPDY
// that agents speak.
type podStreamREST struct {
	pod      podGetter
	kubelets *kubelets
	authz    authorizer.Authorizer
	// verb is the first part of the agent's path.
	verb    string
	options func() runtime.Object
}

var _ rest.Connecter = (*podStreamREST)(nil)

func (r *podStreamREST) New() runtime.Object      { return r.options() }
func (r *podStreamREST) Destroy()                 {}
func (r *podStreamREST) ConnectMethods() []string { return []string{"GET", "POST"} }
func (r *podStreamREST) NewConnectOptions() (runtime.Object, bool, string) {
	return r.options(), false, ""
}

func (r *podStreamREST) Connect(ctx context.Context, name string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	// A WebSocket client asks by GET, which the right to read must not cover.
	if err := mayAlso(ctx, r.authz, "create"); err != nil {
		return nil, err
	}
	pod, err := r.pod(ctx, name)
	if err != nil {
		return nil, err
	}
	path := fmt.Sprintf("/%s/%s/%s", r.verb, pod.Namespace, pod.Name)
	q := url.Values{}
	flags := func(in, out, stderr, tty bool) {
		for name, on := range map[string]bool{"input": in, "output": out, "error": stderr, "tty": tty} {
			if on {
				q.Set(name, "1")
			}
		}
	}
	var streams translator.Options
	switch o := options.(type) {
	case *corev1.PodExecOptions:
		flags(o.Stdin, o.Stdout, o.Stderr, o.TTY)
		q["command"] = o.Command
		streams = translator.Options{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, Tty: o.TTY}
		c, err := containerOf(o.Container, pod)
		if err != nil {
			return nil, err
		}
		path += "/" + c
	case *corev1.PodAttachOptions:
		flags(o.Stdin, o.Stdout, o.Stderr, o.TTY)
		streams = translator.Options{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, Tty: o.TTY}
		c, err := containerOf(o.Container, pod)
		if err != nil {
			return nil, err
		}
		path += "/" + c
	case *corev1.PodPortForwardOptions:
		if len(o.Ports) > 0 {
			q.Set("port", joinPorts(o.Ports))
		}
	default:
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	if pod.Spec.NodeName == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", name))
	}
	host, port, err := r.kubelets.address(ctx, pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	location := &url.URL{Scheme: "https", Host: net.JoinHostPort(host, port), Path: path, RawQuery: q.Encode()}
	direct := proxy.NewUpgradeAwareHandler(location, r.kubelets.verified, false, true, proxy.NewErrorResponder(responder))
	if _, ok := options.(*corev1.PodPortForwardOptions); ok {
		return translator.NewTranslatingHandler(direct, translator.NewTunnelingHandler(direct),
			wsstream.IsWebSocketRequestWithTunnelingProtocol), nil
	}
	return translator.NewTranslatingHandler(direct,
		translator.NewStreamTranslatorHandler(location, r.kubelets.verified, 0, streams),
		wsstream.IsWebSocketRequestWithStreamCloseProtocol), nil
}

func joinPorts(ports []int32) string {
	out := ""
	for i, p := range ports {
		if i > 0 {
			out += ","
		}
		out += strconv.Itoa(int(p))
	}
	return out
}

// asVerb is a request's attributes under another verb.
type asVerb struct {
	authorizer.Attributes
	verb string
}

func (a asVerb) GetVerb() string { return a.verb }

// mayAlso says whether the requester is also allowed the verb.
func mayAlso(ctx context.Context, authz authorizer.Authorizer, verb string) error {
	info, ok := request.RequestInfoFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(errors.New("no request info in context"))
	}
	if info.Verb == verb {
		return nil
	}
	attrs, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("error building authorizer attributes: %w", err))
	}
	decision, reason, err := authz.Authorize(ctx, asVerb{attrs, verb})
	if err != nil {
		return err
	}
	if decision != authorizer.DecisionAllow {
		return apierrors.NewForbidden(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, info.Name, errors.New(reason))
	}
	return nil
}
