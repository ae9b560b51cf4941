package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"pintle.dev/pintle/kernel/node/client"
	"pintle.dev/pintle/kernel/node/cri"
	machinestats "pintle.dev/pintle/kernel/node/stats"
	"pintle.dev/pintle/kernel/revocation"
	"pintle.dev/pintle/sdk/localvolumes"
)

// Config is what a server is told.
type Config struct {
	NodeName  string
	TLS       *tls.Config // certificates
	ClientCAs *x509.CertPool
	// Revoked refuses client certificates; nil: none are.
	Revoked    *revocation.Guard
	APIClients []string
	RootDir    string
	// SystemLogs is the folder of the machine's own logs; empty: /var/log.
	SystemLogs string
	// Settings are the node's, as a KubeletConfiguration; nil: they are not told.
	Settings *kubeletv1beta1.KubeletConfiguration
}

// Pods are the pods of the node.
type Pods interface {
	List() []*corev1.Pod
	Find(namespace, name string) *corev1.Pod
	Runtime(uid types.UID) *cri.PodStatus
}

// Statuses are their newest statuses.
type Statuses interface {
	Get(uid types.UID) (corev1.PodStatus, bool)
}

// Node is the node itself.
type Node interface {
	Object() *corev1.Node
	MemoryCapacity() int64
}

// Deps are what a server works with; all but RemoveLocalVolume are required.
type Deps struct {
	Listener net.Listener
	Client   client.Interface
	CRI      *cri.Client
	Pods     Pods
	Status   Statuses
	Node     Node
	Healthy  func(now time.Time) (time.Time, error)
	// RemoveLocalVolume deletes a volume that the node gave to a claim, by name, as volume.Manager does; nil: the node
	// has none.
	RemoveLocalVolume func(ctx context.Context, name string) error
	Logger            *slog.Logger
}

// Server serves until its context ends.
type Server struct {
	cfg  Config
	deps Deps
	http *http.Server
	// meter measures the machine.
	meter *machinestats.Meter
}

// New makes a server on a listener that it closes.
func New(cfg Config, deps Deps) *Server {
	s := &Server{cfg: cfg, deps: deps, meter: machinestats.New("/proc")}
	g := newGate(cfg, deps.Client)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /healthz/{check}", s.healthz)
	mux.HandleFunc("GET /pods", s.pods)
	mux.HandleFunc("GET /pods/", s.pods)
	mux.HandleFunc("GET /runningpods/", s.runningPods)
	mux.HandleFunc("GET /runningpods", s.runningPods)
	mux.HandleFunc("GET /stats/summary", s.summary)
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("GET /metrics/resource", s.resourceMetrics)
	mux.HandleFunc("GET /configz", s.configz)
	mux.HandleFunc("DELETE "+localvolumes.RemovePath("{name}"), s.removeLocalVolume)
	mux.HandleFunc("GET /logs/", s.systemLogs)
	mux.Handle("GET /logs", http.RedirectHandler("/logs/", http.StatusMovedPermanently))
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.containerLogs)
	for _, method := range []string{"GET ", "POST "} {
		mux.HandleFunc(method+"/exec/{namespace}/{pod}/{container}", s.exec)
		mux.HandleFunc(method+"/exec/{namespace}/{pod}/{uid}/{container}", s.exec)
		mux.HandleFunc(method+"/attach/{namespace}/{pod}/{container}", s.attach)
		mux.HandleFunc(method+"/attach/{namespace}/{pod}/{uid}/{container}", s.attach)
		mux.HandleFunc(method+"/portForward/{namespace}/{pod}", s.portForward)
		mux.HandleFunc(method+"/portForward/{namespace}/{pod}/{uid}", s.portForward)
	}
	s.http = &http.Server{
		Handler: g.wrap(mux), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 1 << 18,
		// Who was refused may not keep the connection for ever.
		IdleTimeout: 90 * time.Second,
		ErrorLog:    slog.NewLogLogger(deps.Logger.Handler(), slog.LevelDebug),
	}
	return s
}

// Handler is the protected handler, for tests.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// Run serves until ctx ends; streams under way are cut.
func (s *Server) Run(ctx context.Context) error {
	conf := s.cfg.TLS.Clone()
	conf.MinVersion = tls.VersionTLS12
	conf.NextProtos = []string{"http/1.1"} // connections are upgraded: no HTTP/2
	conf.ClientCAs = s.cfg.ClientCAs
	conf.ClientAuth = tls.VerifyClientCertIfGiven
	if conf.ClientCAs == nil {
		conf.ClientAuth = tls.NoClientCert
	}
	s.http.BaseContext = func(net.Listener) context.Context { return ctx }
	tracked := newTracker(s.deps.Listener)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		_ = s.http.Close()
		tracked.cut()
	}()
	var l net.Listener = tracked
	if s.cfg.Revoked != nil {
		l = s.cfg.Revoked.Listener(tracked)
	}
	err := s.http.Serve(tls.NewListener(l, conf))
	stopped := ctx.Err() != nil
	stop()
	<-done
	if stopped || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("kubelet server: %w", err)
}

func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	if check := r.PathValue("check"); check != "" && check != "ping" && check != "syncloop" && check != "log" {
		http.NotFound(w, r)
		return
	}
	if _, err := s.deps.Healthy(time.Now()); err != nil {
		http.Error(w, "[-]syncloop failed: the container runtime does not answer", http.StatusInternalServerError)
		return
	}
	_, _ = w.Write([]byte("ok"))
}

func writeJSON(w http.ResponseWriter, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
}

func podList() *corev1.PodList {
	return &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
}

// pods answers the pods that the node should run, with their newest statuses.
func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	list := podList()
	for _, p := range s.deps.Pods.List() {
		o := *p.DeepCopy()
		if st, ok := s.deps.Status.Get(p.UID); ok {
			o.Status = st
		}
		list.Items = append(list.Items, o)
	}
	writeJSON(w, list)
}

// runningPods answers what the runtime runs.
func (s *Server) runningPods(w http.ResponseWriter, r *http.Request) {
	pods, err := s.deps.CRI.List(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	list := podList()
	for _, p := range pods {
		o := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID}}
		for _, c := range p.Containers {
			if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
				continue
			}
			o.Spec.Containers = append(o.Spec.Containers, corev1.Container{Name: c.Labels[cri.LabelContainerName], Image: c.GetImage().GetImage()})
		}
		if len(o.Spec.Containers) > 0 {
			list.Items = append(list.Items, o)
		}
	}
	writeJSON(w, list)
}
