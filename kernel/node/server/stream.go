package server

import (
	"fmt"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/proxy"
	translator "k8s.io/apiserver/pkg/util/proxy"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"pintle.dev/pintle/kernel/node/cri"
)

// find is the pod of a request, and the running container that it names.
func (s *Server) find(w http.ResponseWriter, r *http.Request, needContainer bool) (*corev1.Pod, *cri.PodStatus, *cri.Container) {
	pod := s.deps.Pods.Find(r.PathValue("namespace"), r.PathValue("pod"))
	if pod == nil {
		http.Error(w, "pod does not exist", http.StatusNotFound)
		return nil, nil, nil
	}
	if uid := r.PathValue("uid"); uid != "" && string(pod.UID) != uid {
		http.Error(w, "pod not found", http.StatusNotFound)
		return nil, nil, nil
	}
	rt, err := s.deps.CRI.PodStatus(r.Context(), pod.UID)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return nil, nil, nil
	}
	if !needContainer {
		return pod, rt, nil
	}
	name := r.PathValue("container")
	ct := rt.Find(name)
	if ct == nil || !ct.Running() {
		http.Error(w, fmt.Sprintf("container not found (%q)", name), http.StatusInternalServerError)
		return nil, nil, nil
	}
	return pod, rt, ct
}

func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	o, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _, ct := s.find(w, r, true)
	if ct == nil {
		return
	}
	resp, err := s.deps.CRI.Exec(r.Context(), &runtimeapi.ExecRequest{
		ContainerId: ct.ID, Cmd: r.URL.Query()["command"], Tty: o.TTY, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr})
	if err != nil {
		http.Error(w, cri.Message(err), http.StatusInternalServerError)
		return
	}
	s.command(w, r, resp.Url, o)
}

func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	o, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _, ct := s.find(w, r, true)
	if ct == nil {
		return
	}
	resp, err := s.deps.CRI.Attach(r.Context(), &runtimeapi.AttachRequest{ContainerId: ct.ID, Tty: o.TTY, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr})
	if err != nil {
		http.Error(w, cri.Message(err), http.StatusInternalServerError)
		return
	}
	s.command(w, r, resp.Url, o)
}

// command passes an exec or attach connection on to the runtime's streaming server. Websockets of the newest protocol
// are translated to SPDY, which is what runtimes speak.
func (s *Server) command(w http.ResponseWriter, r *http.Request, to string, o *remotecommand.Options) {
	target, err := url.Parse(to)
	if err != nil {
		http.Error(w, fmt.Sprintf("the container runtime named no usable streaming address: %v", err), http.StatusInternalServerError)
		return
	}
	if wsstream.IsWebSocketRequestWithStreamCloseProtocol(r) {
		translator.NewStreamTranslatorHandler(target, nil, 0, translator.Options{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, Tty: o.TTY}).ServeHTTP(w, r)
		return
	}
	proxy.NewUpgradeAwareHandler(target, nil, false, true, responder{}).ServeHTTP(w, r)
}

func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	tunnel := wsstream.IsWebSocketRequestWithTunnelingProtocol(r)
	o := &portforward.V4Options{}
	if !tunnel {
		var err error
		if o, err = portforward.NewV4Options(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	pod, rt, _ := s.find(w, r, false)
	if pod == nil {
		return
	}
	sandbox := rt.ReadySandbox()
	if sandbox == nil {
		http.Error(w, fmt.Sprintf("failed to find sandboxID for pod %s_%s(%s)", pod.Name, pod.Namespace, pod.UID), http.StatusInternalServerError)
		return
	}
	resp, err := s.deps.CRI.PortForward(r.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: sandbox.Id, Port: o.Ports})
	if err != nil {
		http.Error(w, cri.Message(err), http.StatusInternalServerError)
		return
	}
	target, err := url.Parse(resp.Url)
	if err != nil {
		http.Error(w, fmt.Sprintf("the container runtime named no usable streaming address: %v", err), http.StatusInternalServerError)
		return
	}
	var h http.Handler = proxy.NewUpgradeAwareHandler(target, nil, false, true, responder{})
	if tunnel {
		h = translator.NewTunnelingHandler(h)
	}
	h.ServeHTTP(w, r)
}

type responder struct{}

func (responder) Error(w http.ResponseWriter, _ *http.Request, err error) {
	http.Error(w, err.Error(), http.StatusInternalServerError)
}
