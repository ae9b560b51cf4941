package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/api/resource"

	"pintle.dev/pintle/kernel/node/cgroup"
	"pintle.dev/pintle/kernel/plugin/confinement"
	"pintle.dev/pintle/kernel/plugin/description"
	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/observe"
	"pintle.dev/pintle/kernel/plugin/output"
	"pintle.dev/pintle/kernel/reasons"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/controller"
	"pintle.dev/pintle/sdk/transport"
)

// Guest is a bundle that runs as a process of its own.
type Guest struct {
	answers
	client     *goplugin.Client
	runner     *processRunner
	executable *executable
	memory     *resource.Quantity // its limit
	log        *slog.Logger
	conn       *grpc.ClientConn
	Questions  *transport.Asker // nil: it is asked by gRPC alone
	lender     guest.Lender     // told of a question that is late
	lifecycle  contractv1.LifecycleClient
	process    int
	Timeout    time.Duration
	generation uint64
	alone      bool        // it does not know Evaluate
	classes    bool        // it knows PodAdd.class
	unmeasured atomic.Bool // it has no metrics of its own
}

// answers are what a process said so far.
type answers struct {
	name    string // of the bundle
	plugins []*contractv1.PluginDescription
	words   []wordTable
	// answeredUntil is when the answers to the last question end.
	answeredUntil int64
}

// wordTable interns the reasons of one plugin: a response numbers them anew.
type wordTable struct {
	ids   map[wordKey]uint32
	words []*contractv1.ReasonSet
}

// wordKey is what makes a verdict distinct.
type wordKey struct {
	words        string // a line each
	unresolvable bool
}

var _ guest.Guest = (*Guest)(nil)

// Options is what Start needs beside the bundle.
type Options struct {
	Digest       string
	RunDirectory string
	Call, Start  time.Duration
	Asked        bool         // by the scheduler
	Log, Words   *slog.Logger // Words is for what the process writes
	Budget       *output.Budget
	Constraints
}

// maxAnswerBytes bounds one message of a process: verdicts of a large cluster.
const maxAnswerBytes = 64 << 20

// Start starts a bundle's executable: pinned by digest, with mutual TLS,
// without the kernel's environment, held to its confinement, in a process group
// of its own, and killed by the operating system when the kernel dies.
func Start(ctx context.Context, b *manifest.Bundle, a *manifest.Artifact, o Options) (_ *Guest, err error) {
	name := b.Manifest.Name
	path, err := filepath.Abs(filepath.Join(b.Directory, a.Path))
	if err != nil {
		return nil, err
	}
	if fi, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("plugin bundle %s: %w: artefact: %w; build it with make", name, guest.ErrPermanent, err)
	} else if fi.Mode()&0o111 == 0 {
		return nil, fmt.Errorf("plugin bundle %s: %w: %s is not executable", name, guest.ErrPermanent, path)
	}
	sockets := o.RunDirectory
	if o.User > 0 {
		if sockets, err = o.Folder(name); err != nil {
			return nil, err
		}
	} else if sockets != "" {
		if err := os.MkdirAll(sockets, 0o700); err != nil {
			return nil, fmt.Errorf("plugin bundle %s: %w", name, err)
		}
	}
	exe, err := o.prepare(b, a, o.Digest, path, sockets)
	var wrong wrongDigest
	if errors.As(err, &wrong) {
		return nil, fmt.Errorf("%w: %w", guest.ErrPermanent, manifest.DigestError(name, path, wrong.got, o.Digest))
	}
	if err != nil {
		return nil, fmt.Errorf("plugin bundle %s: %w", name, err)
	}
	// Everything until the process has described itself has one deadline.
	ctx, cancel := context.WithTimeout(ctx, o.Start)
	defer cancel()
	r := &processRunner{name: path, exited: make(chan struct{})}
	run := func(_ hclog.Logger, cmd *exec.Cmd, dir string) (runner.Runner, error) {
		if err := r.prepare(name, exe, &o, cmd.Env, sockets, dir); err != nil {
			return nil, err
		}
		return r, nil
	}
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  transport.Handshake,
		Plugins:          goplugin.PluginSet{transport.Name: &transport.Plugin{}},
		RunnerFunc:       run,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		AutoMTLS:         true,
		SkipHostEnv:      true,
		StartTimeout:     o.Start,
		Logger:           pluginLogger(o.Log),
		SyncStdout:       &output.LineWriter{Log: o.Words},
		SyncStderr:       &output.LineWriter{Log: o.Words},
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: sockets},
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes), grpc.MaxCallSendMsgSize(transport.MaxMessageBytes)),
			grpc.WithChainStreamInterceptor(guardStreams),
			grpc.WithChainUnaryInterceptor(observe.TraceCalls),
			grpc.WithContextDialer(r.dial),
		},
	})
	g := &Guest{answers: answers{name: name}, client: client, runner: r, executable: exe, log: o.Log, Timeout: o.Call,
		memory: resource.NewQuantity(o.Limits.Memory, resource.BinarySI)}
	defer func() {
		if err != nil {
			g.Kill(0)
		}
	}()
	stop := context.AfterFunc(ctx, func() { _ = r.Kill(ctx) })
	defer stop()
	protocol, err := client.Client()
	if errors.As(err, &wrong) || errors.As(r.failed, &wrong) {
		return nil, fmt.Errorf("%w: %w", guest.ErrPermanent, manifest.DigestError(name, path, wrong.got, o.Digest))
	}
	if err != nil {
		return nil, r.fault(ctx, name, o.Start, err)
	}
	g.process = r.pid()
	raw, err := protocol.Dispense(transport.Name)
	if err != nil {
		return nil, fmt.Errorf("plugin bundle %s: %w", name, err)
	}
	conn, ok := raw.(*grpc.ClientConn)
	if !ok {
		return nil, fmt.Errorf("plugin bundle %s: dispensed %T", name, raw)
	}
	g.conn, g.lifecycle = conn, contractv1.NewLifecycleClient(conn)
	if err := g.describeItself(ctx); err != nil {
		return nil, err
	}
	return g, nil
}

// fault is what went wrong at a start, in one line.
func (r *processRunner) fault(ctx context.Context, bundle string, within time.Duration, err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	switch {
	case errors.Is(r.failed, confinement.ErrMissing):
		line = r.failed.Error()
	case ctx.Err() != nil:
		line = fmt.Sprintf("it did not say within %s how it is reached", within)
	case strings.HasPrefix(line, "Unrecognized remote plugin message"):
		line = "it ended, or wrote something else, before it said how it is reached; run it by hand to see why"
	}
	err = fmt.Errorf("plugin bundle %s: start %s: %s", bundle, r.name, line)
	if errors.Is(r.failed, guest.ErrPermanent) {
		err = fmt.Errorf("%w: %w", guest.ErrPermanent, err)
	}
	return err
}

// describeItself asks the process which plugins it has and what it speaks.
func (g *Guest) describeItself(ctx context.Context) error {
	d, err := g.lifecycle.Describe(ctx, &contractv1.DescribeRequest{MinContract: guest.Contract.Oldest, MaxContract: guest.Contract.Newest})
	if err != nil {
		return fmt.Errorf("plugin bundle %s: describe: %w", g.name, err)
	}
	if err := guest.Contract.Check(g.name, d.GetContract()); err != nil {
		return err
	}
	if g.Questions, err = g.runner.asker(d.GetQuestions()); err != nil {
		return fmt.Errorf("plugin bundle %s: %w", g.name, err)
	}
	if err := description.Check(d.GetContract(), d.GetPlugins()); err != nil {
		return fmt.Errorf("plugin bundle %s: %w: %w", g.name, guest.ErrPermanent, err)
	}
	g.plugins, g.classes = d.GetPlugins(), d.GetClasses()
	g.words = make([]wordTable, len(g.plugins))
	return nil
}

// prepare makes what the process needs when it is started: its pipes and its
// cgroup. env is what go-plugin tells it, dir where it may listen.
func (r *processRunner) prepare(name string, exe *executable, o *Options, env []string, base, dir string) (err error) {
	if o.User > 0 {
		if err := os.Lchown(dir, o.User, o.User); err != nil {
			return err
		}
	}
	r.directory, r.network = dir, o.Network || o.Privileged
	var ends processFiles
	defer func() {
		if err != nil {
			ends.close()
		}
	}()
	if r.output[0], ends.stdout, err = os.Pipe(); err != nil {
		return err
	}
	if r.output[1], ends.stderr, err = os.Pipe(); err != nil {
		return err
	}
	if o.Asked {
		if r.questions, ends.questions, err = socketPair(); err != nil {
			return err
		}
	}
	r.stderr = &output.TakenReader{From: &output.FloodReader{From: r.output[1], Budget: o.Budget}, To: &output.LineWriter{Log: o.Words, Max: output.MaxRecordLine}}
	if o.Cgroup != "" && (!o.Privileged || o.Limits.any()) {
		path := fmt.Sprintf("%s/%s-%d", o.Cgroup, name, o.Groups.Add(1))
		limits := cgroup.Limits{MemoryBytes: o.Limits.Memory, MilliCPU: o.Limits.MilliCPU, PIDs: int64(o.Limits.PIDs)}
		if r.group, err = cgroup.NewGroup(path, limits); err != nil {
			if r.group = nil; !o.Waived.Has(confinement.Cgroup) {
				r.failed = confinement.Missing(confinement.Cgroup, err)
				return r.failed
			}
			r.without = append(r.without, confinement.Cgroup)
		}
	}
	r.start = func() (*exec.Cmd, error) {
		defer ends.close()
		full := append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}, env...)
		if o.Limits.Memory > 0 {
			// Go collects sooner instead of passing the limit; others take no notice.
			full = append(full, fmt.Sprintf("GOMEMLIMIT=%d", o.Limits.Memory/10*9))
		}
		if o.Limits.MilliCPU > 0 {
			// It does not see its cgroup.
			full = append(full, fmt.Sprintf("GOMAXPROCS=%d", max(2, (o.Limits.MilliCPU+999)/1000)))
		}
		p := o.process(name, exe, o.Digest, full, &ends, base, dir)
		p.Timeout = o.Start
		p.Enter = func(pid int) error { return o.enter(pid, r.group) }
		check := p.Check
		p.Check = func(pid int) (err error) {
			if err = check(pid); err == nil {
				r.sockets, err = p.Listening(pid)
			}
			return err
		}
		cmd, err := p.Start()
		err = o.explain(exe, o.Digest, err)
		r.failed = err
		r.without = append(r.without, p.Without...)
		for _, wall := range r.without {
			o.Log.Warn("plugin process runs without a wall that plugins.runWithout waives", "without", wall)
		}
		return cmd, err
	}
	return nil
}

// guardStreams lets no stream of go-plugin's own in that a process could flood the
// kernel by: the broker, which nobody uses here, is refused, and what a process
// prints comes in small messages.
func guardStreams(ctx context.Context, d *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	switch {
	case strings.HasPrefix(method, "/plugin.GRPCBroker/"):
		return nil, status.Error(codes.Unimplemented, "the kernel has no broker")
	case strings.HasPrefix(method, "/plugin.GRPCStdio/"):
		opts = append(opts, grpc.MaxCallRecvMsgSize(output.MaxLogWrite))
	}
	return streamer(ctx, d, conn, method, opts...)
}

// Kill ends the process and all that it started: at once, or by asking it and
// waiting that long. go-plugin alone would ask a process that hangs, and wait
// for ever.
func (g *Guest) Kill(grace time.Duration) {
	force := func() { _ = g.runner.Kill(context.Background()) }
	if grace <= 0 {
		force()
	}
	late := time.AfterFunc(grace, force)
	g.client.Kill()
	late.Stop()
	force() // also one that was never asked
	if err := g.runner.close(); err != nil {
		g.log.Warn("plugin process left something behind", "error", err)
	}
	g.executable.close()
}

// failed marks errors that speak of the process rather than of the question.
func (g *Guest) failed(what string, err error) error {
	s := status.Convert(err)
	words := cmp.Or(reasons.Text(s.Message()), "no reason given")
	switch s.Code() {
	case codes.DeadlineExceeded:
		return guest.Broken("plugin bundle %s: %s: no answer in time", g.name, what)
	case codes.Unavailable:
		if g.runner.outOfMemory() {
			return guest.Broken("plugin bundle %s: %s: process %d was ended: it used more than its %s of memory", g.name, what, g.process, g.memory)
		}
		return guest.Broken("plugin bundle %s: %s: process %d is gone, or its connection is: %s", g.name, what, g.process, words)
	case codes.ResourceExhausted:
		return g.outOfRange("%s: %s", what, words)
	case codes.Canceled:
		return guest.Broken("plugin bundle %s: %s: %w", g.name, what, err)
	case codes.Unknown, codes.Internal, codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition:
		// The plugin said so.
		return fmt.Errorf("plugin bundle %s: %s: %s", g.name, what, words)
	}
	return fmt.Errorf("plugin bundle %s: %s: %s: %s", g.name, what, s.Code(), words)
}

func (g *answers) outOfRange(what string, args ...any) error {
	return guest.Broken("plugin bundle %s: answer out of range: %s", g.name, fmt.Sprintf(what, args...))
}

func (g *Guest) Lacks() []confinement.Wall { return g.runner.without }

func (g *answers) Describe() []*contractv1.PluginDescription { return g.plugins }
func (g *Guest) PID() int                                    { return g.process }

func (g *Guest) Health(ctx context.Context) error {
	if g.client.Exited() {
		if g.runner.outOfMemory() {
			return guest.Broken("plugin bundle %s: process %d was ended: it used more than its %s of memory", g.name, g.process, g.memory)
		}
		return guest.Broken("plugin bundle %s: process %d ended", g.name, g.process)
	}
	return nil
}

// Ping asks the process itself; it costs a round trip.
func (g *Guest) Ping(ctx context.Context) error {
	resp, err := g.lifecycle.Health(ctx, &contractv1.HealthRequest{})
	if err != nil {
		return g.failed("health", err)
	}
	if !resp.GetHealthy() {
		return guest.Broken("plugin bundle %s: unhealthy: %s", g.name, resp.GetMessage())
	}
	return nil
}

func (g *Guest) Close(ctx context.Context, grace time.Duration) error {
	if g.client.Exited() || grace <= 0 {
		g.Kill(0)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	_, err := g.lifecycle.Stop(ctx, &contractv1.StopRequest{GraceMilliseconds: grace.Milliseconds()})
	if err != nil {
		grace = 0
	}
	g.Kill(grace)
	if err != nil {
		return fmt.Errorf("plugin bundle %s: stop: %w", g.name, err)
	}
	return nil
}

func (g *Guest) Configure(ctx context.Context, i int, config []byte) error {
	ctx, cancel := context.WithTimeout(ctx, g.Timeout*guest.ConfigureFactor)
	defer cancel()
	req := &contractv1.ConfigureRequest{Plugin: g.plugins[i].GetName(), Config: config}
	if plugin := guest.PluginOf(req.Plugin); plugin != req.Plugin {
		req.Plugin, req.Instance = plugin, req.Plugin
	}
	err := guest.Watched(g.lender, func() error {
		_, err := g.lifecycle.Configure(ctx, req)
		return err
	})
	if err != nil {
		return g.failed("configure "+g.plugins[i].GetName(), err)
	}
	return nil
}

// another: the process makes it when it is configured.
func (g *Guest) Another(_ context.Context, i int, name string) (int, error) {
	g.plugins = append(g.plugins, guest.InstanceOf(g.plugins[i], name))
	g.words = append(g.words, wordTable{})
	return len(g.plugins) - 1, nil
}

// ask asks one of the questions of a decision: at the socket that the process has
// for them, or by gRPC. A question that belongs to a trace goes by gRPC, which tells
// the process of it.
func (g *Guest) ask(ctx context.Context, q transport.Question, req, resp proto.Message, limit int, timeout time.Duration) error {
	return guest.Watched(g.lender, func() error {
		if g.Questions != nil && !observe.Sampled(ctx) {
			return g.Questions.Ask(ctx, q, req, resp, limit, timeout)
		}
		return g.invoke(ctx, q, req, resp, limit, timeout)
	})
}

// invoke asks by gRPC.
func (g *Guest) invoke(ctx context.Context, q transport.Question, req, resp proto.Message, limit int, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return g.conn.Invoke(ctx, q.Method(), req, resp, grpc.MaxCallRecvMsgSize(limit))
}

func (g *Guest) Apply(ctx context.Context, p guest.Part, timeout time.Duration) error {
	generation, resp := p.Delta.GetGeneration(), &contractv1.ApplyResponse{}
	if err := g.ask(ctx, transport.Apply, &contractv1.ApplyRequest{Delta: p.Whole()}, resp, maxAnswerBytes, timeout); err != nil {
		return g.failed("apply", err)
	}
	if resp.GetGeneration() != generation {
		return g.outOfRange("generation %d after delta %d", resp.GetGeneration(), generation)
	}
	g.generation = generation
	return nil
}

func (g *Guest) Filter(ctx context.Context, i int, class uint32, nodes, out []uint32) error {
	req, resp := &contractv1.FilterRequest{Plugin: g.plugins[i].GetName(), Class: class, Nodes: nodes, Generation: g.generation}, &contractv1.FilterResponse{}
	if err := g.ask(ctx, transport.Filter, req, resp, maxAnswerBytes, g.Timeout); err != nil {
		return g.failed("filter", err)
	}
	if err := g.untilOf(resp.GetUntilUnixMilli()); err != nil {
		return err
	}
	return g.verdicts(i, resp.GetVerdicts(), resp.GetReasons(), out)
}

// verdicts turns an answer's own numbers of reasons into those of the guest.
func (g *answers) verdicts(i int, verdicts []uint32, sets []*contractv1.ReasonSet, out []uint32) (err error) {
	if len(verdicts) != len(out) {
		return g.outOfRange("%d verdicts for %d nodes", len(verdicts), len(out))
	}
	if len(sets) > guest.MaxVerdict {
		return g.outOfRange("%d sets of reasons", len(sets))
	}
	ids := make([]uint32, len(sets)+1)
	for k, set := range sets {
		if ids[k+1], err = g.intern(i, set); err != nil {
			return err
		}
	}
	for k, v := range verdicts {
		if int(v) >= len(ids) {
			return g.outOfRange("verdict %d of %d", v, len(sets))
		}
		out[k] = ids[v]
	}
	return nil
}

func (g *answers) intern(i int, set *contractv1.ReasonSet) (uint32, error) {
	key := strings.Join(set.GetReasons(), "\n")
	if key == "" || len(key) > guest.MaxReasonBytes {
		return 0, g.outOfRange("a verdict with %d bytes of reasons", len(key))
	}
	t, of := &g.words[i], wordKey{key, set.GetUnresolvable()}
	if id, ok := t.ids[of]; ok {
		return id, nil
	}
	if len(t.words) >= guest.MaxVerdict {
		return 0, g.outOfRange("more than %d distinct verdicts", guest.MaxVerdict)
	}
	if t.ids == nil {
		t.ids = map[wordKey]uint32{}
	}
	t.words = append(t.words, &contractv1.ReasonSet{
		Reasons: reasons.Of(guest.PluginOf(g.plugins[i].GetName()), set.GetReasons()), Unresolvable: set.GetUnresolvable(),
	})
	t.ids[of] = uint32(len(t.words))
	return uint32(len(t.words)), nil
}

func (g *Guest) Cycle(ctx context.Context, req *contractv1.CycleRequest, timeout time.Duration) (*contractv1.CycleResponse, error) {
	ask := g.ask
	if req.GetSteps()[0].GetPoint().Beside() {
		ask = g.invoke // these last, and several are under way
	}
	resp := &contractv1.CycleResponse{}
	if err := ask(ctx, transport.RunCycle, req, resp, guest.MaxCycleAnswer, timeout); err != nil {
		return nil, g.failed("cycle", err)
	}
	return resp, nil
}

func (g *answers) Reasons(i int, verdict uint32) []string {
	return g.said(i, verdict).GetReasons()
}

func (g *answers) Unresolvable(i int, verdict uint32) bool {
	return g.said(i, verdict).GetUnresolvable()
}

func (g *answers) said(i int, verdict uint32) *contractv1.ReasonSet {
	if verdict == 0 || int(verdict) > len(g.words[i].words) {
		return nil
	}
	return g.words[i].words[verdict-1]
}

func (g *Guest) Score(ctx context.Context, i int, class uint32, nodes []uint32, out []int64) error {
	req, resp := &contractv1.ScoreRequest{Plugin: g.plugins[i].GetName(), Class: class, Nodes: nodes, Generation: g.generation}, &contractv1.ScoreResponse{}
	if err := g.ask(ctx, transport.Score, req, resp, maxAnswerBytes, g.Timeout); err != nil {
		return g.failed("score", err)
	}
	if err := g.untilOf(resp.GetUntilUnixMilli()); err != nil {
		return err
	}
	return g.scores(resp, out)
}

func (g *Guest) Normalize(ctx context.Context, i int, class uint32, nodes []uint32, scores []int64) error {
	req, resp := &contractv1.NormalizeRequest{Plugin: g.plugins[i].GetName(), Class: class, Nodes: nodes, Scores: scores}, &contractv1.ScoreResponse{}
	if err := g.ask(ctx, transport.Normalize, req, resp, maxAnswerBytes, g.Timeout); err != nil {
		return g.failed("normalize", err)
	}
	return g.scores(resp, scores)
}

func (g *answers) scores(resp *contractv1.ScoreResponse, out []int64) error {
	if len(resp.GetScores()) != len(out) {
		return g.outOfRange("%d scores for %d nodes", len(resp.GetScores()), len(out))
	}
	copy(out, resp.GetScores())
	return nil
}

// pluginLogger hands go-plugin's own records to the kernel's logger, for those who
// debug: of starts and ends the supervisor tells better.
func pluginLogger(log *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Debug, Output: io.Discard})
	l.RegisterSink(logSink{log})
	return l
}

type logSink struct{ log *slog.Logger }

func (s logSink) Accept(_ string, _ hclog.Level, msg string, args ...any) {
	if !s.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	s.log.Debug(msg, args...)
}

// concurrent: each call of a process has an answer of its own.
func (*Guest) Concurrent() {}

// Carry encodes deltas for a question at a point of the cycle.
func (g *Guest) Carry(queue []guest.Part) ([][]byte, error) {
	return guest.Deltas(queue, g.classes)
}

func (g *Guest) Carried(generation uint64) { g.generation = generation }

// Usage is the memory of the process with its children, where it has a cgroup.
func (g *Guest) Usage() (used, most int64) {
	if g.runner.group == nil {
		return 0, 0
	}
	return g.runner.group.MemoryBytes(), 0
}

func (g *Guest) Connection() *grpc.ClientConn { return g.conn }

// RunControllers makes the process run exactly the given controllers, with the bundle's
// socket for its informers.
func (g *Guest) RunControllers(ctx context.Context, socket func() (string, error), node string, list []controller.Spec) error {
	shared, err := socket()
	if err != nil {
		return err
	}
	if err := controller.NewClient(g.conn).Start(ctx, shared, node, list); err != nil {
		return fmt.Errorf("plugin bundle %s: start controllers: %w", g.name, err)
	}
	return nil
}

func (g *Guest) ControllerStates(ctx context.Context) ([]controller.State, error) {
	states, err := controller.NewClient(g.conn).Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("plugin bundle %s: controllers' status: %w", g.name, err)
	}
	return states, nil
}

// StartAPIServers makes the process run exactly the given API servers.
func (g *Guest) StartAPIServers(ctx context.Context, req *contractv1.APIServerStart) (*contractv1.APIServerStarted, error) {
	return contractv1.NewAPIServersClient(g.conn).Start(ctx, req)
}

func (g *Guest) DialSocket(ctx context.Context, name string) (net.Conn, error) {
	return g.runner.dialSocket(ctx, name)
}

// Exposition is what the process counts itself, in Prometheus' text format. One that has
// no metrics is not asked again.
func (g *Guest) Exposition(ctx context.Context, most int) ([]byte, error) {
	if g.unmeasured.Load() {
		return nil, nil
	}
	resp, err := contractv1.NewMetricsClient(g.conn).Gather(ctx, &contractv1.MetricsRequest{}, grpc.MaxCallRecvMsgSize(most+1024))
	if status.Code(err) == codes.Unimplemented {
		g.unmeasured.Store(true)
		return nil, nil
	}
	if err != nil {
		return nil, errors.New(status.Convert(err).Message())
	}
	return resp.GetExposition(), nil
}
