package follower

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/utils/clock"

	"pintle.dev/pintle/sdk/proxy"
)

const (
	// look is how often the plugin is asked whether it does its work.
	look = 2 * time.Second
	// startTimeout bounds a start: the plugin may read objects first.
	startTimeout = 30 * time.Second
	// soon is the pause between tries while the node's first pod waits.
	soon = 100 * time.Millisecond
)

// Config says which plugin it is.
type Config struct {
	// Purpose is what the plugin is for, in two words or three, such as "network policies".
	Purpose string
	// Lost is logged when the plugin fails, Back when it works again.
	Lost, Back string
	// Plugin is its name.
	Plugin string
	// Connect returns the plugin.
	Connect func() (proxy.Proxy, error)
	// Options are handed to its start.
	Options proxy.Options
	Logger  *slog.Logger
	// Clock; nil: the real one.
	Clock clock.WithTicker
}

// Keeper keeps the plugin of one node.
type Keeper struct {
	cfg    Config
	plugin proxy.Proxy
	said   string
}

// New checks the configuration; nothing is started.
func New(cfg Config) (*Keeper, error) {
	switch {
	case cfg.Purpose == "" || cfg.Lost == "" || cfg.Back == "":
		return nil, errors.New("plugin that follows the API: it is not said what it is for")
	case cfg.Plugin == "" || cfg.Connect == nil:
		return nil, fmt.Errorf("%s: no plugin is named", cfg.Purpose)
	case cfg.Logger == nil || cfg.Options.NodeName == "":
		return nil, fmt.Errorf("%s: no logger, or no name of the node", cfg.Purpose)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &Keeper{cfg: cfg}, nil
}

// Start starts the plugin, and returns when it works. It tries again while the plugin's
// process or its way to the API is not there yet, for startTimeout at most, but not where this
// machine cannot. After an error Run tries again.
func (k *Keeper) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := k.start(ctx)
		if err == nil || errors.Is(err, proxy.ErrUnusable) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-k.cfg.Clock.After(soon):
		}
	}
}

func (k *Keeper) start(ctx context.Context) error {
	if k.plugin == nil {
		p, err := k.cfg.Connect()
		if err != nil {
			return fmt.Errorf("plugin %s: %w", k.cfg.Plugin, err)
		}
		k.plugin = p
	}
	if err := k.plugin.Probe(ctx, k.cfg.Options.Config); err != nil {
		return fmt.Errorf("plugin %s: %w", k.cfg.Plugin, err)
	}
	if err := k.plugin.Start(ctx, k.cfg.Options); err != nil {
		return fmt.Errorf("plugin %s: %w", k.cfg.Plugin, err)
	}
	if status := k.plugin.Status(); !status.Ready {
		return fmt.Errorf("plugin %s: %s", k.cfg.Plugin, status.Message)
	}
	return nil
}

// Run looks after the plugin until ctx ends; see Stop. One that fails is no fault of the node.
func (k *Keeper) Run(ctx context.Context) error {
	tick := k.cfg.Clock.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
		}
		if k.plugin != nil && k.plugin.Status().Ready {
			k.say(nil)
			continue
		}
		within, cancel := context.WithTimeout(ctx, startTimeout)
		err := k.start(within)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		k.say(err)
	}
}

// say logs once what goes on being so.
func (k *Keeper) say(err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	if k.said == now {
		return
	}
	if k.said = now; err != nil {
		k.cfg.Logger.Warn(k.cfg.Lost, "error", err)
		return
	}
	k.cfg.Logger.Info(k.cfg.Back, "plugin", k.cfg.Plugin)
}

// Stop stops the plugin after Run has returned; with cleanup nothing that it did to the
// machine stays.
func (k *Keeper) Stop(ctx context.Context, cleanup bool) error {
	if k.plugin == nil {
		return nil
	}
	if err := k.plugin.Stop(ctx, cleanup); err != nil {
		return fmt.Errorf("stop plugin %s: %w", k.cfg.Plugin, err)
	}
	return nil
}
