package resultcache

import (
	"context"
	"fmt"
)

// score asks for the raw scores that are missing among the nodes that fit.
func (c *Class) score(ctx context.Context, s *View) error {
	touched := c.touchedFit(s)
	for i := range c.priorities {
		cache := &c.priorities[i]
		if c.fitOld || c.nodes != s.NodeVersion {
			cache.moved = true
		}
		candidates := touched
		if cache.void || c.fitOld {
			candidates = c.fit
		}
		c.asks[i] = c.asks[i][:0]
		if cache.skip.now {
			continue
		}
		for _, n := range candidates {
			if !cache.have[n] {
				c.asks[i] = append(c.asks[i], n)
			}
		}
		c.askChangedScores(i)
	}
	c.scoreTogether(ctx)
	for i := range c.priorities {
		if err := c.askScores(ctx, i); err != nil {
			return err
		}
	}
	c.fitOld = false
	return nil
}

// askScores asks priority i about those of its nodes whose raw score is missing.
func (c *Class) askScores(ctx context.Context, i int) error {
	cache := &c.priorities[i]
	c.ask = c.ask[:0]
	for _, n := range c.asks[i] {
		if !cache.have[n] {
			c.ask = append(c.ask, n)
		}
	}
	if len(c.ask) == 0 {
		return nil
	}
	c.scores = grow(c.scores, len(c.ask), 0)[:len(c.ask)]
	if err := c.policy.Score(ctx, i, c.id, c.ask, c.scores); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.trouble = fmt.Errorf("priority %s: %w", cache.Name, err)
		cache.stale = true
		clear(c.scores)
	}
	c.scoresUntil(i)
	for k, n := range c.ask {
		c.takeScore(cache, n, c.scores[k])
	}
	return nil
}

// takeScore keeps a raw score.
func (c *Class) takeScore(cache *priorityCache, n uint32, score int64) {
	if cache.take(n, score) {
		c.change(n)
	}
}

// touchedFit lists, once each, the nodes touched since the last update that fit.
func (c *Class) touchedFit(s *View) []uint32 {
	touched, _ := s.Log.Since(c.position)
	c.list = c.list[:0]
	for _, t := range touched {
		if c.fail[t.Node] == fits && c.mark[t.Node] == c.tick {
			c.mark[t.Node] = 0 // each once
			c.list = append(c.list, t.Node)
		}
	}
	return c.list
}
