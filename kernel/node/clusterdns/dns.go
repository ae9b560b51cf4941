package clusterdns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/kernel/node/serviceproxy"
	"pintle.dev/pintle/sdk/proxy"
)

const (
	// look is how often the plugin is asked whether it answers.
	look = 2 * time.Second
	// again is how many looks pass until the objects are compared though nothing changed.
	again = 5
	// startTimeout bounds a start: the plugin reads the cluster's services first.
	startTimeout = 30 * time.Second
	// writeTimeout bounds one round of writes.
	writeTimeout = 10 * time.Second
)

// Config says what answers, and as what it is published.
type Config struct {
	// Plugin is its name.
	Plugin string
	// Connect returns the plugin.
	Connect func() (proxy.Proxy, error)
	// Options are handed to its start. The first address of the node is published.
	Options proxy.Options
	// ClusterIP of the service.
	ClusterIP string
	// Client writes the service and the slice, and reads the node. Nil: nothing is
	// published, and Own is set.
	Client kubernetes.Interface
	// Own has the service proxy of this machine lead pods to the plugin, by the service that
	// others have written.
	Own    *serviceproxy.Own
	Logger *slog.Logger
	// Clock; nil: the real one.
	Clock clock.WithTicker
}

// DNS keeps the DNS of one node.
type DNS struct {
	cfg       Config
	answering chan struct{}
	once      sync.Once

	// Run's alone.
	plugin    proxy.Proxy
	published string // what was last, and how many looks it holds
	rounds    int
	said      string
}

// New checks the configuration; nothing is started.
func New(cfg Config) (*DNS, error) {
	switch {
	case cfg.Plugin == "" || cfg.Connect == nil:
		return nil, errors.New("cluster DNS: no plugin is named")
	case (cfg.Client == nil) == (cfg.Own == nil) || cfg.Logger == nil:
		return nil, errors.New("cluster DNS: no client and no service proxy, or both, or no logger")
	case cfg.ClusterIP == "" || cfg.Options.NodeName == "" || len(cfg.Options.NodeIPs) == 0:
		return nil, errors.New("cluster DNS: no cluster IP, node or address of the node")
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &DNS{cfg: cfg, answering: make(chan struct{})}, nil
}

// Answering is closed when the DNS answered for the first time and is published.
func (d *DNS) Answering() <-chan struct{} { return d.answering }

// Run keeps the DNS until ctx ends; see Stop. A DNS that fails is no fault of the node.
func (d *DNS) Run(ctx context.Context) error {
	tick := d.cfg.Clock.NewTicker(look)
	defer tick.Stop()
	for {
		err := d.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			d.say("cluster DNS of this node does not answer, or is not published; it is tried again", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
		}
	}
}

// say logs once what goes on being so.
func (d *DNS) say(text string, err error) {
	now := text
	if err != nil {
		now += err.Error()
	}
	if d.said == now {
		return
	}
	if d.said = now; err != nil {
		d.cfg.Logger.Warn(text, "plugin", d.cfg.Plugin, "error", err)
		return
	}
	d.cfg.Logger.Info(text, "plugin", d.cfg.Plugin, "service", Namespace+"/"+Service)
}

// round starts the plugin where it does not run, and publishes what it says.
func (d *DNS) round(ctx context.Context) error {
	status, failure := d.running(ctx)
	switch {
	case failure != nil:
	case !status.Ready:
		failure = errors.New(status.Message)
	case len(status.Serves) == 0:
		status.Ready, failure = false, fmt.Errorf("plugin %s says that it is ready, and serves no DNS; is it a service proxy?", d.cfg.Plugin)
	}
	state := state(status)
	if d.rounds++; state == d.published && d.rounds < again {
		return failure
	}
	if d.cfg.Own != nil {
		return errors.Join(failure, d.lead(status, state))
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	d.published = ""
	ours, err := d.ensureService(ctx)
	switch {
	case err != nil && !ours:
	case !ours:
		err = errors.Join(err, d.withdraw(ctx))
	default:
		err = errors.Join(err, d.publish(ctx, status.Serves, status.Ready))
	}
	if err == nil {
		d.published, d.rounds = state, 0
		if ours && status.Ready {
			d.answers()
		}
	}
	return errors.Join(failure, err)
}

// answers says that it does.
func (d *DNS) answers() {
	if d.said != "" {
		d.say("cluster DNS of this node answers", nil)
		d.said = ""
	}
	d.once.Do(func() { close(d.answering) })
}

// lead has pods of this machine ask the plugin while it answers, and the other endpoints of the
// service while it does not.
func (d *DNS) lead(status proxy.Status, state string) error {
	name := proxy.Name{Namespace: Namespace, Name: Service}
	if !status.Ready {
		d.cfg.Own.Set(name, nil)
	} else if err := d.check(status.Serves); err != nil {
		d.cfg.Own.Set(name, nil)
		return err
	} else {
		out := &proxy.ServiceEndpoints{Name: &proxy.ServiceName{Namespace: Namespace, Name: Service}}
		for _, p := range status.Serves {
			out.Ports = append(out.Ports, &proxy.PortEndpoints{PortName: p.GetName(), Protocol: p.GetProtocol(), Endpoints: []*proxy.Endpoint{{
				Ip: p.GetAddress(), Port: p.GetPort(), Ready: true, Serving: true, Local: true, NodeName: d.cfg.Options.NodeName,
			}}})
		}
		d.cfg.Own.Set(name, out)
		d.answers()
	}
	d.published, d.rounds = state, 0
	return nil
}

// running is the plugin's status, after a start where it does not run.
func (d *DNS) running(ctx context.Context) (proxy.Status, error) {
	if d.plugin == nil {
		p, err := d.cfg.Connect()
		if err != nil {
			return proxy.Status{}, err
		}
		d.plugin = p
	} else if status := d.plugin.Status(); status.Ready {
		return status, nil
	}
	// One that runs is left as it is.
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := d.plugin.Start(ctx, d.cfg.Options); err != nil {
		return proxy.Status{}, err
	}
	return d.plugin.Status(), nil
}

// state tells one thing to publish from another.
func state(s proxy.Status) string {
	text := "down"
	if s.Ready {
		text = "ready"
	}
	for _, p := range s.Serves {
		text += " " + p.String()
	}
	return text
}

// Stop ends the plugin's DNS after Run has returned, and takes the node's slice away.
func (d *DNS) Stop(ctx context.Context) error {
	var err error
	if d.cfg.Own != nil {
		d.cfg.Own.Set(proxy.Name{Namespace: Namespace, Name: Service}, nil)
	} else {
		err = d.withdraw(ctx)
	}
	if d.plugin != nil {
		if stop := d.plugin.Stop(ctx, true); stop != nil && ctx.Err() == nil {
			err = errors.Join(err, stop)
		}
	}
	return err
}
