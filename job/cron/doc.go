// Package cron says when a cron expression fires: the next time after an
// instant, the one before it, and all between two.
//
// An expression has five fields (minute, hour, day of month, month, day of
// week) or six (second first), or is one of @yearly @annually @monthly @weekly
// @daily @midnight @hourly, or "@every 90s". docs/guides/cron.md has the whole
// grammar.
//
// A wall time that clock changes leave out or bring twice is ruled by DST. The
// default is the rule of Vixie cron: what names fixed times fires once, what
// has a * or a step in its minute or hour follows real time.
//
// Every answer follows from the arguments and the zone's data alone.
package cron
