package org.apache.spark.sql.keyfold.expressions

/**
 * The columns that keyfold adds to the user's. The engine's Python list of the same names is compared with
 * this one by a test.
 */
object InternalColumns {
  /** The event time of a row; null if the row has none that can be used. */
  val Time = "_kf_time"
  /** The text of a row that does not parse. */
  val Raw = "_kf_raw"
  /** The side output of a row, `SideOutput.schema`; null for a row that is processed. */
  val SideOutput = "_kf_side"
  /** Marks a row that has no data and only advances event time. */
  val Control = "_kf_control"
  /** The batch's timestamp. */
  val Now = "_kf_now"
  /** In a replayed late row: the watermark for which it was late, in microseconds. */
  val Replay = "_kf_replay"
  /** The event time as the row gives it, whether it can be used or not. */
  val Given = "_kf_given"
  /** 1 for a row, -1 for its retraction. */
  val Weight = "_kf_weight"
  /**
   * In a retracting stream: the id of the upstream row that a row, or a retraction, comes from, and the
   * change of it, `RowId.schema`. Null for rows that come from no table's changelog.
   */
  val RowId = "_kf_id"
  /** In a change: the row before it. */
  val Prev = "_kf_prev"
  /** Of a change that another table reads: the batch that made it. */
  val Batch = "_kf_batch"
  /** Of a change in a file that has changes of many batches: the batch that made it. */
  val MergedBatch = "_kf_merged_batch"
  /** Of a change that another table reads: its position among the changes of its part. */
  val Position = "_kf_position"
  /** Which message of Kafka a row comes from, `MessageOrigin.schema`; null for rows that come from none. */
  val Message = "_kf_message"
  /** The order in which a key's rows are folded: event time, then arrival. */
  val Order = "_kf_order"
  /** The whole input row, beside the columns that a fold reads. */
  val Whole = "_kf_row"
  /** The operation of a change. */
  val Op = "_op"
  /** The pane of a window, or the timer bucket of a key. */
  val Pane = "_pane"
  /** In state: where a pane or a session starts. */
  val Start = "_start"
  /** In state: where a session ends. */
  val End = "_end"
  /** In state: when the key was last seen, for TTL. */
  val Seen = "_seen"
  /** In state: how many rows of a retracting stream are left. */
  val Left = "_left"
  /** In state: the time of the newest row. */
  val Newest = "_newest"
  /** In the key of a top-N table. */
  val Rank = "rank"

  /** In rows for a Python processor or for a stream's own log: their order of arrival. */
  val Arrival = "_kf_arrival"

  /** Of a change that is sent at once: its key, and its row, as they are in a message. */
  val MessageKey = "_kf_message_key"
  val MessageValue = "_kf_message_value"

  /** Columns that travel beside a change, or beside a row of a stream's log, and are not recorded with it. */
  val besideChange: Set[String] = Set(SideOutput, Arrival, MessageKey, MessageValue)

  /** What the names of the columns that travel beside a stream's own begin with. */
  val Prefix = "_kf_"

  /** Columns that users' expressions do not see. */
  val hidden: Set[String] = Set(Time, Raw, SideOutput, Control, Now, Replay, Given, Weight, RowId, Prev,
    Message)
}
